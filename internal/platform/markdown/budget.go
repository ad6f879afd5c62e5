package markdown

import (
	"bytes"
	"context"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const (
	// A text can cost baseWork units and workPerByte more for each of its bytes. A unit is a few nanoseconds.
	// Ordinary text costs less than ten units per byte.
	baseWork, workPerByte = 8 << 20, 64
	// A result can have baseHTML bytes and htmlPerByte more for each byte of the text, up to MaxHTML.
	baseHTML, htmlPerByte = 64 << 10, 8
	// maxLines bounds the blocks of a document.
	maxLines = 50_000
	// cellWork is the cost of a table cell: a row has a cell for each column, even if the text has none.
	cellWork = 128
	// bracketWork is the cost of a bracket that may open a link: the parser stores each.
	bracketWork = 128
	// tagWork is the cost of a byte that the parser matches against an HTML tag, with a regular expression.
	tagWork = 64
)

// A meter counts the work of one render and ends it when its budget is spent or its context ends.
type meter struct {
	ctx     context.Context
	left    int // units of work
	maxHTML int
	charges int

	block ast.Node // the one that inlineGate charged last
	// The number of escaped pipes in tables, and of bytes in the lines that have them.
	pipes, pipeBytes int
}

func newMeter(ctx context.Context, size int) *meter {
	return &meter{ctx: ctx, left: baseWork + workPerByte*size, maxHTML: min(MaxHTML, baseHTML+htmlPerByte*size)}
}

// exceeded is the panic that ends a render: the parser cannot be stopped otherwise.
type exceeded struct{ error }

func (m *meter) spend(units int) {
	if m.left -= units; m.left < 0 {
		panic(exceeded{errLimit})
	}
	if m.charges++; m.charges%256 == 0 && m.ctx.Err() != nil {
		panic(exceeded{m.ctx.Err()})
	}
}

// meterKey is the key of the meter in the parser's state.
var meterKey = parser.NewContextKey()

// blockReader is the input of the parser while it finds blocks. Each open block reads each line, and a block
// that opens reads the rest of its line, so this bounds nesting too.
type blockReader struct {
	text.Reader
	meter *meter
}

func (r blockReader) PeekLine() ([]byte, text.Segment) {
	line, segment := r.Reader.PeekLine()
	indent := len(line) - len(bytes.TrimLeft(line, " \t"))
	work := 1 + len(line)/16 + 2*indent
	if segment.Padding > 0 {
		work += len(line) // it was copied
	}
	r.meter.spend(work)
	return line, segment
}

// LineOffset counts the columns from the beginning of the line.
func (r blockReader) LineOffset() int {
	offset := r.Reader.LineOffset()
	r.meter.spend(max(offset, 0))
	return offset
}

// paragraphGate charges for the transformers of paragraphs: link definitions and tables.
type paragraphGate struct{}

func (paragraphGate) Transform(paragraph *ast.Paragraph, reader text.Reader, state parser.Context) {
	m := state.Get(meterKey).(*meter)
	source, lines := reader.Source(), paragraph.Lines()
	size, definitions := 0, 0
	for i := range lines.Len() {
		segment := lines.At(i)
		line := bytes.TrimLeft(source[segment.Start:segment.Stop], " \t")
		size += len(line)
		if bytes.HasPrefix(line, []byte("[")) {
			definitions++
		}
		if isDelimiterRow(line) {
			m.spend(cellWork * lines.Len() * (bytes.Count(line, []byte("|")) + 1))
		}
		if pipes := bytes.Count(line, []byte(`\|`)); pipes > 0 {
			before := m.pipes * m.pipeBytes
			m.pipes += pipes
			m.pipeBytes += len(line)
			m.spend(m.pipes*m.pipeBytes - before)
		}
	}
	m.spend(lines.Len() + size/8)
	m.spend(definitions * (lines.Len() + size/16))
}

// isDelimiterRow reports whether a line can be the delimiter row of a table.
func isDelimiterRow(line []byte) bool {
	for _, c := range line {
		switch c {
		case '|', '-', ':', ' ', '\t', '\r', '\n':
		default:
			return false
		}
	}
	return bytes.IndexByte(line, '-') >= 0
}

// inlineGate runs before all inline parsers. It parses nothing: it charges for a block before the first of them
// runs.
type inlineGate struct{}

// Trigger returns all characters that start one of the parsers.
func (inlineGate) Trigger() []byte { return []byte(" !()[]<`*_~") }

func (inlineGate) Parse(block ast.Node, reader text.Reader, state parser.Context) ast.Node {
	m := state.Get(meterKey).(*meter)
	m.spend(1)
	if m.block == block {
		return nil
	}
	m.block = block
	source, lines := reader.Source(), block.Lines()
	if lines.Len() == 1 {
		m.spendInline(source[lines.At(0).Start:lines.At(0).Stop])
		return nil
	}
	var all []byte
	for i := range lines.Len() {
		all = append(all, source[lines.At(i).Start:lines.At(i).Stop]...)
	}
	m.spendInline(all)
	return nil
}

// spendInline charges for parsing the inline content of a block. At one character the parser mostly searches
// for another one further on; without one it reads the whole block.
func (m *meter) spendInline(block []byte) {
	m.spend(len(block) / 4)
	delimiters := 0
	for i := 0; i < len(block); i++ {
		switch block[i] {
		case '\\':
			i++
		case '*', '_':
			delimiters++
		case '~':
			delimiters++
			m.spend(wordLength(block[i+1:])) // it may start an address
		case '`':
			// A code span ends with as many backticks as it starts with. Its content is charged for anyway: the
			// backticks may be part of something else.
			run := runLength(block[i:])
			m.spend(codeSpan(block[i:], run))
			i += run - 1
		case '<':
			m.spend(tagWork * tagLength(block[i:]))
		case '[':
			m.spend(bracketWork)
		case ']':
			m.spend(i/2 + linkLength(block[i+1:])) // the text before it, and the destination
		}
	}
	m.spend(delimiters * delimiters)
}

// runLength returns how often a block repeats its first byte.
func runLength(block []byte) int {
	n := 1
	for n < len(block) && block[n] == block[0] {
		n++
	}
	return n
}

// codeSpan returns the length of the code span at the start of a block, which run backticks open, or the length
// of the block when there is none.
func codeSpan(block []byte, run int) int {
	for i := run; i < len(block); i++ {
		if block[i] != '`' {
			continue
		}
		n := runLength(block[i:])
		i += n
		if n == run {
			return i
		}
	}
	return len(block)
}

// tagLength returns the length of a possible HTML tag at the start of a block: up to the first bracket that is
// not quoted.
func tagLength(block []byte) int {
	var quote byte
	for i := 1; i < len(block); i++ {
		switch c := block[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '<' || c == '>':
			return i
		}
	}
	return len(block)
}

// wordLength returns the length of a block up to the first space.
func wordLength(block []byte) int {
	if i := bytes.IndexAny(block, " \t\r\n"); i >= 0 {
		return i
	}
	return len(block)
}

// linkLength returns the length of a possible link destination after the text of a link.
func linkLength(block []byte) int {
	switch {
	case bytes.HasPrefix(block, []byte("[")):
		if i := bytes.IndexAny(block[1:], "[]"); i >= 0 {
			return i
		}
		return len(block)
	case !bytes.HasPrefix(block, []byte("(")):
		return 0
	}
	i := 1 + len(block[1:]) - len(bytes.TrimLeft(block[1:], " \t\r\n"))
	if i < len(block) && block[i] == '<' {
		if n := bytes.IndexAny(block[i:], ">\n"); n >= 0 {
			i += n
		} else {
			return len(block)
		}
	}
	i += wordLength(block[i:])
	i += len(block[i:]) - len(bytes.TrimLeft(block[i:], " \t\r\n"))
	if i == len(block) {
		return i
	}
	closer := block[i]
	switch closer {
	case '"', '\'':
	case '(':
		closer = ')'
	default:
		return i
	}
	if n := bytes.IndexByte(block[i+1:], closer); n >= 0 {
		return i + n
	}
	return len(block)
}
