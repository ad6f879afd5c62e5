package redact

// maxHidden is the maximum number of consecutive invisible bytes inside a value: some changes of color, or a
// link. It limits what is buffered.
const maxHidden = 1024

// An escape tracks control bytes and escape sequences, which a terminal does not show.
type escape struct {
	state escapeState
	run   int // consecutive hidden bytes
}

type escapeState uint8

const (
	plain escapeState = iota
	afterESC
	control  // after ESC [, up to a byte from @ to ~
	text     // after ESC ] and the like, up to BEL or ESC \
	textEnds // after ESC inside text
)

// hides processes the next byte and reports whether a terminal hides it. Line breaks are visible.
func (e *escape) hides(c byte) bool {
	hidden := e.next(c)
	switch {
	case !hidden && !isBreak(c):
		e.run = 0
	case hidden:
		if e.run++; e.run > maxHidden {
			e.state = plain // terminals do not continue forever either
		}
	}
	return hidden
}

func (e *escape) next(c byte) bool {
	switch e.state {
	case plain:
		if c == 0x1b {
			e.state = afterESC
			return true
		}
		return isControl(c)
	case afterESC:
		switch {
		case c == '[':
			e.state = control
		case c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X':
			e.state = text
		case c == 0x1b || c >= ' ' && c <= '/':
		default:
			e.state = plain
		}
	case control:
		if c >= '@' && c <= '~' {
			e.state = plain
		}
	case text, textEnds:
		switch {
		case c == 0x07 || c == '\\' && e.state == textEnds:
			e.state = plain
		case c == 0x1b:
			e.state = textEnds
		default:
			e.state = text
		}
	}
	return true
}

// visibleText returns a text as a terminal shows it.
func visibleText(text string) string {
	var e escape
	visible := make([]byte, 0, len(text))
	for _, c := range []byte(text) {
		if !e.hides(c) {
			visible = append(visible, c)
		}
	}
	return string(visible)
}
