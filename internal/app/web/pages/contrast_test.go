package pages

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tokens returns the colors of the stylesheet by name, for light and dark.
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

func contrast(a, b string) float64 {
	parse := func(color string) (c rgb) {
		for i := range c {
			n, _ := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
			c[i] = uint8(n)
		}
		return c
	}
	return parse(a).contrast(parse(b))
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

func TestLogColors_CanBeRead(t *testing.T) {
	css := string(assets["build.css"].content)
	colors := map[string]string{}
	for _, m := range regexp.MustCompile(`--(log-[a-z0-9]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
		colors[m[1]] = m[2]
	}
	if colors["log-ground"] != logGround.String() {
		t.Fatalf("the ground of logs is %s, and the palette is made for %s", colors["log-ground"], logGround)
	}
	for _, m := range regexp.MustCompile(`(term-fgx\d+) \{ color: (#[0-9a-f]{6}); \}`).FindAllStringSubmatch(css, -1) {
		colors[m[1]] = m[2]
	}
	if len(colors) != 19+240 {
		t.Fatalf("there are %d colors", len(colors))
	}
	for name, color := range colors {
		if got := contrast(color, colors["log-ground"]); name != "log-ground" && got < 4.5 {
			t.Errorf("%s on the ground of a log has a contrast of %.2f, want 4.5", name, got)
		}
	}
}
