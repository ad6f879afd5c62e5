package web

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tokens returns the colors of the stylesheet, by name, in light and in dark.
func tokens(t *testing.T) map[string]map[string]string {
	t.Helper()
	light, dark, ok := strings.Cut(string(assets["stackyard.css"].content), "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("the stylesheet has no dark colors")
	}
	dark, _, _ = strings.Cut(dark, "\n}\n")
	schemes := map[string]map[string]string{"light": {}, "dark": {}}
	for scheme, text := range map[string]string{"light": light, "dark": dark} {
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(text, -1) {
			schemes[scheme][m[1]] = m[2]
		}
	}
	if len(schemes["light"]) != len(schemes["dark"]) {
		t.Fatalf("%d colors in light, %d in dark", len(schemes["light"]), len(schemes["dark"]))
	}
	return schemes
}

// luminance is how bright a color is, from 0 to 1, as the WCAG define it.
func luminance(color string) float64 {
	channel := func(hex string) float64 {
		n, _ := strconv.ParseUint(hex, 16, 8)
		c := float64(n) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(color[1:3]) + 0.7152*channel(color[3:5]) + 0.0722*channel(color[5:7])
}

func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestColors_CanBeToldApart(t *testing.T) {
	const text, edge = 4.5, 3.0
	type pair struct {
		front, back string
		least       float64
	}
	pairs := []pair{
		{"on-accent", "accent", text}, {"on-accent", "accent-strong", text}, {"accent", "accent-soft", text}, {"text", "accent-soft", text}, {"muted", "accent-soft", text},
	}
	for _, back := range []string{"ground", "surface", "sunken"} {
		for _, front := range []string{"text", "muted", "accent"} {
			pairs = append(pairs, pair{front, back, text})
		}
	}
	for _, back := range []string{"ground", "surface"} {
		pairs = append(pairs, pair{"field", back, edge})
	}
	for _, state := range []string{"good", "bad", "warn", "busy"} {
		for _, back := range []string{state + "-soft", "surface", "ground"} {
			pairs = append(pairs, pair{state, back, text})
		}
	}
	for scheme, colors := range tokens(t) {
		for _, p := range pairs {
			if colors[p.front] == "" || colors[p.back] == "" {
				t.Fatalf("%s has no color %s or %s", scheme, p.front, p.back)
			}
			if got := contrast(colors[p.front], colors[p.back]); got < p.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", scheme, p.front, p.back, got, p.least)
			}
		}
	}
}
