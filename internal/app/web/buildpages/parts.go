package buildpages

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"html/template"
	"io"
	"regexp"
	"strings"
)

// The ids of the elements of a build's page that change independently. Each job is another one, by its own id.
const (
	headPart  = "build-head"
	notesPart = "build-notes"
	jobsPart  = "build-jobs"
	filesPart = "build-files"
)

// A part is an element of a page, by its id.
type part struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
	sum  uint64
}

// parts are the elements of a build's page.
type parts struct {
	Head, Notes, Jobs, Files template.HTML
	fixed                    []part // always present, without jobsPart
	rows                     []part // one for each unit
	shape                    uint64 // hash of the order and grouping of jobs
}

// parts renders the elements of the page. It leaves an empty element for the log, which the script does not
// replace.
func (b *board) parts() (*parts, error) {
	p := &parts{}
	shape := fnv.New64a()
	fmt.Fprintln(shape, b.PageNumber, b.Pages, b.Showing(), b.Searchable())
	for _, section := range b.Sections {
		fmt.Fprintf(shape, "%s %q\n", section.GroupID, section.Label)
		for _, u := range section.Units {
			one, err := b.render("unit", u.ID(), u)
			if err != nil {
				return nil, err
			}
			u.HTML = template.HTML(one.HTML)
			p.rows = append(p.rows, one)
			io.WriteString(shape, u.ID())
		}
	}
	p.shape = shape.Sum64()
	for id, to := range map[string]*template.HTML{headPart: &p.Head, notesPart: &p.Notes, jobsPart: &p.Jobs, filesPart: &p.Files} {
		one, err := b.render(id, id, b)
		if err != nil {
			return nil, err
		}
		*to = template.HTML(one.HTML)
		if id != jobsPart {
			p.fixed = append(p.fixed, one)
		}
	}
	return p, nil
}

func (b *board) render(name, id string, data any) (part, error) {
	return b.renderPart("build", name, id, data)
}

// renderPart renders an element that the template of a page defines.
func (b *board) renderPart(page, name, id string, data any) (part, error) {
	var text bytes.Buffer
	if err := b.site.Part(&text, page, name, data); err != nil {
		return part{}, err
	}
	html := text.String()
	return part{ID: id, HTML: html, sum: sumOf(html)}, nil
}

// relativeTimes matches the text of relative times, which changes without an event.
var relativeTimes = regexp.MustCompile(`(<time [^>]*>)[^<]*</time>`)

func sumOf(html string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, relativeTimes.ReplaceAllString(html, "$1"))
	return h.Sum64()
}

// version returns a text that changes whenever one of the parts does.
func (p *parts) version() string {
	var all uint64 // the order of the fixed parts does not matter
	for _, one := range p.fixed {
		all += one.sum
	}
	h := fnv.New64a()
	fmt.Fprintln(h, all, p.shape)
	for _, one := range p.rows {
		fmt.Fprintln(h, one.sum)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// since returns the parts that differ from before; nil is an unknown page.
func (p *parts) since(before *parts) []part {
	var changed []part
	sums := make(map[string]uint64)
	if before != nil {
		for _, one := range append(before.fixed, before.rows...) {
			sums[one.ID] = one.sum
		}
	}
	differs := func(one part) bool { sum, known := sums[one.ID]; return !known || sum != one.sum }
	for _, one := range p.fixed {
		if differs(one) {
			changed = append(changed, one)
		}
	}
	if p.Jobs != "" && (before == nil || before.shape != p.shape) {
		return append(changed, part{ID: jobsPart, HTML: string(p.Jobs)})
	}
	for _, one := range p.rows {
		if differs(one) {
			changed = append(changed, one)
		}
	}
	return changed
}

// logPlace is the empty element for the log of an open job.
const logPlace = `<div id="job-log" data-part="job-log" data-own></div>`

// withLog returns the list of jobs with a log inserted.
func (p *parts) withLog(log string) template.HTML {
	return template.HTML(strings.Replace(string(p.Jobs), logPlace, log, 1))
}
