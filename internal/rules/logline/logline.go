// Package logline renders single lines of job logs as HTML.
//
// A line is what stands between two line ends. Within it the package does what a terminal does: colors and styles,
// carriage returns, backspaces, erasing and moving within the line, hyperlinks, small images. Sequences that move to
// other lines are ignored, so a line of the log is always one line of the page, and any part of a log can be rendered
// without the rest. Styles and times carry over from line to line, so a [Renderer] reads some lines before those it
// is asked for.
//
// The text is hostile: everything is escaped, links lead to web pages and mail only, and work and output are linear
// in the size of the line.
package logline

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxLine is how many bytes of a line are rendered. The rest is left out.
const MaxLine = 64 << 10

const (
	// maxImage is the size limit of an image in base64, maxLink of an address, maxSequence of other escape sequences.
	maxImage    = 48 << 10
	maxLink     = 2 << 10
	maxSequence = 4 << 10
	// maxWork limits the cells that sequences of one line erase and skip, and maxHTML the size of its elements.
	maxWork = 1 << 20
	maxHTML = 256 << 10
)

// A Kind is the kind of a line.
type Kind string

// The kinds of lines.
const (
	Plain     Kind = ""
	Collapsed Kind = "---" // heading of a section that is folded
	Expanded  Kind = "+++" // heading of a section that is open
	Quiet     Kind = "~~~" // heading of a section that is folded and of little interest
	Opener    Kind = "^^^" // opens the section it is in; it has no content
)

// Heading reports whether a line of the kind starts a section.
func (k Kind) Heading() bool { return k == Collapsed || k == Expanded || k == Quiet }

// A Line is a rendered line.
type Line struct {
	HTML string
	Text string // without escape sequences
	Kind Kind
	At   time.Time // when it was printed; zero if unknown
}

// A Renderer renders lines one after the other. Its zero value is ready to use.
type Renderer struct {
	style style
	stamp int64 // milliseconds since 1970; 0: unknown

	cells []cell
	at    int // column
	work  int // of this line so far
	text  strings.Builder
}

// A cell is one character, or an image.
type cell struct {
	r     rune
	style style
	image string // an element; r is then 0
}

// Skip takes over styles and times of a line without rendering it.
func (r *Renderer) Skip(raw []byte) { r.scan(raw) }

// Line renders a line, which ends without its line end.
func (r *Renderer) Line(raw []byte) Line {
	cut := 0
	if len(raw) > MaxLine {
		cut = len(raw) - MaxLine
		raw = raw[:MaxLine]
	}
	r.scan(raw)
	linkURLs(r.cells)
	l := Line{Text: textOf(r.cells)}
	l.Kind = kindOf(l.Text)
	if r.stamp > 0 {
		l.At = time.UnixMilli(r.stamp).UTC()
	}
	r.text.Reset()
	writeCells(&r.text, r.cells)
	if cut > 0 {
		r.text.WriteString(`<span class="cut">… ` + strconv.Itoa(cut) + ` more bytes in this line</span>`)
	}
	l.HTML = r.text.String()
	return l
}

// scan fills the cells from a line.
func (r *Renderer) scan(raw []byte) {
	r.cells, r.at, r.work = r.cells[:0], 0, 0
	for len(raw) > 0 {
		switch c := raw[0]; {
		case c == '\x1b':
			raw = raw[r.escape(raw):]
		case c == '\r':
			r.at, raw = 0, raw[1:]
		case c == '\b':
			r.at, raw = max(0, r.at-1), raw[1:]
		case c == '\t':
			r.put(cell{r: '\t', style: r.style})
			raw = raw[1:]
		case c < ' ' || c == 0x7f:
			raw = raw[1:]
		default:
			char, n := utf8.DecodeRune(raw)
			if char >= 0x80 && char < 0xa0 { // control characters
				raw = raw[n:]
				continue
			}
			r.put(cell{r: char, style: r.style})
			raw = raw[n:]
		}
	}
}

// put writes a cell at the cursor.
func (r *Renderer) put(c cell) {
	if r.at > len(r.cells) && !r.charge(r.at-len(r.cells)) {
		r.at = len(r.cells)
	}
	for len(r.cells) < r.at {
		r.cells = append(r.cells, cell{r: ' '})
	}
	if r.at < len(r.cells) {
		r.cells[r.at] = c
	} else {
		r.cells = append(r.cells, c)
	}
	r.at++
}

// move moves the cursor to a column.
func (r *Renderer) move(column int) { r.at = min(max(0, column), len(r.cells)+200, MaxLine) }

// charge counts work on cells and reports whether the line may do it.
func (r *Renderer) charge(cells int) bool {
	r.work += cells
	return r.work <= maxWork
}

// textOf returns the characters of cells.
func textOf(cells []cell) string {
	var b strings.Builder
	for _, c := range cells {
		if c.image == "" {
			b.WriteRune(c.r)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// kindOf returns the kind of a line by its text.
func kindOf(text string) Kind {
	if len(text) < 4 || text[3] != ' ' {
		return Plain
	}
	switch k := Kind(text[:3]); k {
	case Collapsed, Expanded, Quiet:
		return k
	case Opener:
		if strings.TrimSpace(text[3:]) == "+++" {
			return k
		}
	}
	return Plain
}
