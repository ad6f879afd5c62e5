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
