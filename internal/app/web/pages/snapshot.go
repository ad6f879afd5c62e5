package pages

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

// A Part is an element of a page that changes on its own, by the id in its attribute data-part.
type Part struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
}

// A Snapshot is the state of a page's parts.
type Snapshot interface {
	// Version returns a text that changes whenever a part does.
	Version() string
	// Since returns the parts that differ from an earlier snapshot; nil is an unknown one.
	Since(before Snapshot) []Part
}

// relativeTimes matches the text of relative times, which changes without an event.
var relativeTimes = regexp.MustCompile(`(<time [^>]*>)[^<]*</time>`)

// SumOf returns a hash of HTML without the text of relative times.
func SumOf(html string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, relativeTimes.ReplaceAllString(html, "$1"))
	return h.Sum64()
}

// PartsOf returns the parts of a page: its elements with the attribute data-part, which can contain others, such as the
// rows of a list.
func PartsOf(page []byte) Snapshot {
	root := &partTree{}
	open, depths := []*partTree{root}, []int{0}
	depth, offset := 0, 0
	starts := []int{0}
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		begin := offset
		offset += len(z.Raw())
		switch kind {
		case html.StartTagToken:
			name, id := tagAndPart(z)
			if voidElements[name] {
				continue
			}
			depth++
			if id != "" {
				open, depths, starts = append(open, &partTree{Part: Part{ID: id}}), append(depths, depth), append(starts, begin)
			}
		case html.EndTagToken:
			last := len(open) - 1
			if last > 0 && depths[last] == depth {
				p := open[last]
				p.HTML = string(page[starts[last]:offset])
				open, depths, starts = open[:last], depths[:last], starts[:last]
				open[last-1].children = append(open[last-1].children, p)
			}
			depth--
		}
	}
	root.finish()
	return root
}

// tagAndPart returns the name of a tag and the id of the part that it begins, or "".
func tagAndPart(z *html.Tokenizer) (name, id string) {
	tag, more := z.TagName()
	name = string(tag)
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if string(key) == "data-part" {
			id = string(value)
		}
	}
	return name, id
}

// voidElements are the elements without an end tag.
var voidElements = map[string]bool{"area": true, "base": true, "br": true, "col": true, "embed": true, "hr": true, "img": true, "input": true, "link": true, "meta": true, "source": true, "track": true, "wbr": true}

// A partTree is a part with the parts in it.
type partTree struct {
	Part
	children []*partTree
	own      uint64 // hash of what is its own: all but the content of its children
	all      uint64
}

func (p *partTree) finish() {
	rest := p.HTML
	own := fnv.New64a()
	for _, c := range p.children {
		c.finish()
		before, after, _ := strings.Cut(rest, c.HTML)
		fmt.Fprintln(own, SumOf(before), c.ID)
		rest = after
	}
	fmt.Fprint(own, SumOf(rest))
	p.own = own.Sum64()
	all := fnv.New64a()
	fmt.Fprintln(all, p.own)
	for _, c := range p.children {
		fmt.Fprintln(all, c.all)
	}
	p.all = all.Sum64()
}

// Version implements Snapshot.
func (p *partTree) Version() string { return fmt.Sprintf("%016x", p.all) }

// Since implements Snapshot. If only children of a part have changed, it returns those.
func (p *partTree) Since(before Snapshot) []Part {
	was, _ := before.(*partTree)
	if was == nil {
		was = &partTree{}
	}
	known := make(map[string]*partTree, len(was.children))
	for _, c := range was.children {
		known[c.ID] = c
	}
	var changed []Part
	for _, c := range p.children {
		switch old := known[c.ID]; {
		case old == nil || old.own != c.own:
			changed = append(changed, c.Part)
		case old.all != c.all:
			changed = append(changed, c.Since(old)...)
		}
	}
	return changed
}
