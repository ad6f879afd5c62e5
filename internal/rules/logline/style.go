package logline

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// A color is one of the terminal's palette, or any other.
type color struct {
	set   bool
	exact bool // red, green and blue are set
	index uint8
	rgb   [3]uint8
}

// A style is how characters look, and where they lead.
type style struct {
	text, ground                            color
	bold, faint, italic, underline, crossed bool
	inverse                                 bool
	link                                    string
}

// apply changes the style as the parameters of ESC [ … m say.
func (s *style) apply(parameters string) {
	codes := strings.Split(parameters, ";")
	for i := 0; i < len(codes); i++ {
		if strings.Contains(codes[i], ":") { // 38:2::r:g:b, 38:5:n, 4:3
			s.applyColons(strings.Split(codes[i], ":"))
			continue
		}
		n, err := strconv.Atoi(codes[i])
		if codes[i] == "" {
			n, err = 0, nil
		}
		if err != nil {
			continue
		}
		if n == 38 || n == 48 {
			c, used := extended(codes[i+1:])
			i += used
			if n == 38 {
				s.text = c
			} else {
				s.ground = c
			}
			continue
		}
		s.set(n)
	}
}

func (s *style) applyColons(codes []string) {
	switch codes[0] {
	case "4":
		s.underline = len(codes) > 1 && codes[1] != "0"
	case "38", "48":
		if len(codes) > 5 && codes[1] == "2" { // with an empty color space
			codes = append([]string{codes[0], "2"}, codes[3:]...)
		}
		c, _ := extended(codes[1:])
		if codes[0] == "38" {
			s.text = c
		} else {
			s.ground = c
		}
	}
}

// extended parses 5;n or 2;r;g;b and returns how many codes it used.
func extended(codes []string) (c color, used int) {
	number := func(i int) uint8 {
		if i >= len(codes) {
			return 0
		}
		n, _ := strconv.Atoi(codes[i])
		return uint8(min(max(n, 0), 255))
	}
	switch {
	case len(codes) >= 2 && codes[0] == "5":
		return color{set: true, index: number(1)}, 2
	case len(codes) >= 4 && codes[0] == "2":
		rgb := [3]uint8{number(1), number(2), number(3)}
		return color{set: true, exact: true, rgb: rgb, index: nearest(rgb)}, 4
	}
	return color{}, min(1, len(codes))
}

// set applies a code without parameters.
func (s *style) set(n int) {
	switch {
	case n == 0:
		*s = style{link: s.link}
	case n == 1:
		s.bold = true
	case n == 2:
		s.faint = true
	case n == 3:
		s.italic = true
	case n == 4:
		s.underline = true
	case n == 7:
		s.inverse = true
	case n == 9:
		s.crossed = true
	case n == 21, n == 22:
		s.bold, s.faint = false, false
	case n == 23:
		s.italic = false
	case n == 24:
		s.underline = false
	case n == 27:
		s.inverse = false
	case n == 29:
		s.crossed = false
	case n >= 30 && n <= 37:
		s.text = color{set: true, index: uint8(n - 30)}
	case n == 39:
		s.text = color{}
	case n >= 40 && n <= 47:
		s.ground = color{set: true, index: uint8(n - 40)}
	case n == 49:
		s.ground = color{}
	case n >= 90 && n <= 97:
		s.text = color{set: true, index: uint8(n - 90 + 8)}
	case n >= 100 && n <= 107:
		s.ground = color{set: true, index: uint8(n - 100 + 8)}
	}
}

// levels are the brightnesses in the palette's cube of colors.
var levels = [...]int{0, 95, 135, 175, 215, 255}

// nearest returns the color of the palette, without its first sixteen, that is most similar.
func nearest(rgb [3]uint8) uint8 {
	var cube [3]int
	distance := 0
	for i, v := range rgb {
		best := 0
		for j, level := range levels {
			if abs(level-int(v)) < abs(levels[best]-int(v)) {
				best = j
			}
		}
		cube[i] = best
		d := levels[best] - int(v)
		distance += d * d
	}
	gray := min(max((int(rgb[0])+int(rgb[1])+int(rgb[2]))/3-8+5, 0)/10, 23)
	grayDistance := 0
	for _, v := range rgb {
		d := 8 + 10*gray - int(v)
		grayDistance += d * d
	}
	if grayDistance < distance {
		return uint8(232 + gray)
	}
	return uint8(16 + 36*cube[0] + 6*cube[1] + cube[2])
}

func abs(n int) int { return max(n, -n) }

// attributes returns the attributes of an element in this style. Exact colors are also in data attributes: style
// attributes are against the policy of pages, whose script sets them.
func (s style) attributes() string {
	text, ground := s.text, s.ground
	if s.inverse {
		text, ground = ground, text
		if !text.set && !ground.set {
			return ` class="term-inverse"`
		}
	}
	var names []string
	var data string
	if ground.set {
		names = append(names, fmt.Sprintf("term-bgx%d", ground.index))
		if ground.exact {
			data += fmt.Sprintf(` data-bg="%02x%02x%02x"`, ground.rgb[0], ground.rgb[1], ground.rgb[2])
		}
	}
	if text.set {
		names = append(names, fmt.Sprintf("term-fgx%d", text.index))
		if text.exact {
			data += fmt.Sprintf(` data-fg="%02x%02x%02x"`, text.rgb[0], text.rgb[1], text.rgb[2])
		}
	}
	for _, flag := range []struct {
		on    bool
		class string
	}{{s.bold, "term-fg1"}, {s.faint, "term-fg2"}, {s.italic, "term-fg3"}, {s.underline, "term-fg4"}, {s.crossed, "term-fg9"}} {
		if flag.on {
			names = append(names, flag.class)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ` class="` + strings.Join(names, " ") + `"` + data
}

// writeCells writes cells as HTML, with one element for all characters that look the same.
func writeCells(b *strings.Builder, cells []cell) {
	for end := len(cells); end > 0 && cells[end-1] == (cell{r: ' '}); end-- {
		cells = cells[:end-1]
	}
	for i := 0; i < len(cells); {
		same := i + 1
		for same < len(cells) && cells[same].style == cells[i].style {
			same++
		}
		writeRun(b, cells[i:same])
		i = same
	}
}

// writeRun writes cells of the same style.
func writeRun(b *strings.Builder, cells []cell) {
	s := cells[0].style
	if b.Len() > maxHTML {
		s = style{}
	}
	attributes := s.attributes()
	switch {
	case s.link != "":
		b.WriteString(`<a href="` + html.EscapeString(s.link) + `" rel="noopener noreferrer nofollow"` + attributes + `>`)
		defer b.WriteString("</a>")
	case attributes != "":
		b.WriteString("<span" + attributes + ">")
		defer b.WriteString("</span>")
	}
	for _, c := range cells {
		switch {
		case c.image != "":
			b.WriteString(c.image)
		case c.r == '<':
			b.WriteString("&lt;")
		case c.r == '>':
			b.WriteString("&gt;")
		case c.r == '&':
			b.WriteString("&amp;")
		case c.r == '"':
			b.WriteString("&#34;")
		case c.r == '\'':
			b.WriteString("&#39;")
		default:
			b.WriteRune(c.r)
		}
	}
}
