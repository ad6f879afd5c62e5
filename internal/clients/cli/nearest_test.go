package cli

import (
	"testing"
	"time"
)

func TestNearest_SuggestsOnlySimilarNames(t *testing.T) {
	known := []string{"web", "api", "mobile-app", "Deploy"}
	for mistyped, want := range map[string]string{
		"wbe": "web", "mobile": "", "mobileapp": "mobile-app", "deplyo": "Deploy", "xyz": "", "": "", "webb": "web",
	} {
		if got := nearest(mistyped, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", mistyped, got, want)
		}
	}
}

func TestRelative_UsesTheLargestUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "now", -5 * time.Second: "5 s ago", -90 * time.Second: "1 min ago", 26 * time.Hour: "in 1 d", -800 * 24 * time.Hour: "2 y ago",
	} {
		if got := relative(d); got != want {
			t.Errorf("relative(%s) = %q, want %q", d, got, want)
		}
	}
}

func TestPaint_ColorsStatesOnATerminalOnly(t *testing.T) {
	terminal, file := &remote{color: true}, &remote{}
	for text, want := range map[string]string{
		"failed (7)": "\x1b[31mfailed (7)\x1b[0m", "connected, busy": "\x1b[32mconnected, busy\x1b[0m", "hello": "hello", "": "",
	} {
		if got := terminal.paint(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if got := file.paint(text); got != text {
			t.Errorf("without a terminal, %q becomes %q", text, got)
		}
	}
}
