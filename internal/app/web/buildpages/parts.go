package buildpages

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"html/template"
	"io"
	"strings"

	"stackyard/internal/app/web/pages"
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
	pages.Part
	sum uint64
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
	return part{pages.Part{ID: id, HTML: html}, pages.SumOf(html)}, nil
}

// Version returns a text that changes whenever one of the parts does.
func (p *parts) Version() string {
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

// Since returns the parts that differ from before; nil is an unknown page.
func (p *parts) Since(before pages.Snapshot) []pages.Part {
	var changed []pages.Part
	sums := make(map[string]uint64)
	was, known := before.(*parts)
	if known {
		for _, one := range append(was.fixed, was.rows...) {
			sums[one.ID] = one.sum
		}
	}
	differs := func(one part) bool { sum, known := sums[one.ID]; return !known || sum != one.sum }
	for _, one := range p.fixed {
		if differs(one) {
			changed = append(changed, one.Part)
		}
	}
	if p.Jobs != "" && (!known || was.shape != p.shape) {
		return append(changed, pages.Part{ID: jobsPart, HTML: string(p.Jobs)})
	}
	for _, one := range p.rows {
		if differs(one) {
			changed = append(changed, one.Part)
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
