package core

import (
	"strings"
	"testing"
)

func TestValidColor(t *testing.T) {
	for s, want := range map[string]bool{
		"#A9CCE3": true, "#000000": true, "#ffffff": true, "#FFF": true, "#abc": true,
		"": false, "red": false, "#FFFF": false, "#FF": false, "abc": false, "A9CCE3": false, "#A9CCE3FF": false, "#GGGGGG": false, "#A9CCE3\n": false,
	} {
		if got := ValidColor(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestValidEmoji(t *testing.T) {
	for s, want := range map[string]bool{
		":rocket:": true, ":+1:": true, ":docker-compose:": true, "🚀": true, "👩‍🚀": true, "🇳🇿": true, "❤️": true, "1️⃣": true,
		"": false, "rocket": false, "::": false, ":two words:": false, "🚀 x": false, "é": false, "日本": false,
		strings.Repeat("🚀", 17): false, ":" + strings.Repeat("a", 101) + ":": false,
	} {
		if got := ValidEmoji(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}
