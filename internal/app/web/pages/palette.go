package pages

import (
	"fmt"
	"math"
	"strings"
)

// An rgb is a color.
type rgb [3]uint8

func (c rgb) String() string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// luminance returns the brightness of a color, from 0 to 1, as defined by WCAG.
func (c rgb) luminance() float64 {
	channel := func(n uint8) float64 {
		v := float64(n) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(c[0]) + 0.7152*channel(c[1]) + 0.0722*channel(c[2])
}

// contrast returns the contrast ratio of two colors, from 1 to 21, as defined by WCAG.
func (c rgb) contrast(other rgb) float64 {
	x, y := c.luminance(), other.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// logGround is the background of logs, --log-ground in build.css.
var logGround = rgb{0x15, 0x17, 0x1f}

// legible returns the color, or a similar one that is light enough to be read on the background of a log.
func (c rgb) legible() rgb {
	for c.contrast(logGround) < 4.5 {
		for i := range c {
			c[i] += (255-c[i])/16 + 1
		}
	}
	return c
}

// palette returns the CSS rules of the 256 terminal colors: sixteen that we choose, a cube of six by six by
// six, and 24 grays. Rules of backgrounds come first, so that they do not override the color of the text.
func palette() string {
	var grounds, texts strings.Builder
	for i := range 16 {
		text, ground, kind := 30+i, 40+i, ""
		if i >= 8 {
			text, ground, kind = 90+i-8, 100+i-8, "i"
		}
		fmt.Fprintf(&grounds, ".term-bg%s%d, .term-bgx%d { background: var(--log-%d); color: var(--log-ground); }\n", kind, ground, i, text)
		fmt.Fprintf(&texts, ".term-fg%s%d, .term-fgx%d { color: var(--log-%d); }\n", kind, text, i, text)
	}
	for i := 16; i < 256; i++ {
		c := paletteColor(i)
		on := "--log-text"
		if c.contrast(logGround) > 4.5 {
			on = "--log-ground"
		}
		fmt.Fprintf(&grounds, ".term-bgx%d { background: %s; color: var(%s); }\n", i, c, on)
		fmt.Fprintf(&texts, ".term-fgx%d { color: %s; }\n", i, c.legible())
	}
	return "\n" + grounds.String() + texts.String()
}

// paletteColor returns one of the colors from 16 to 255.
func paletteColor(i int) rgb {
	if i >= 232 {
		gray := uint8(8 + 10*(i-232))
		return rgb{gray, gray, gray}
	}
	steps := [...]uint8{0, 95, 135, 175, 215, 255}
	i -= 16
	return rgb{steps[i/36], steps[i/6%6], steps[i%6]}
}
