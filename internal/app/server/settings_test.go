package server

import (
	"strings"
	"testing"

	"stackyard/internal/platform/core"
)

func TestParseSettings_ContentURLIsAnOriginOfItsOwn(t *testing.T) {
	for _, c := range []struct {
		public, content string
		want            core.PublicURL
		wrong           string
	}{
		{"https://ci.example.com", "https://content.example.com/", "https://content.example.com", ""},
		{"https://ci.example.com/ci", "http://127.0.0.1:8080", "http://127.0.0.1:8080", ""},
		{"https://ci.example.com", "", "", ""},
		{"https://ci.example.com", "https://CI.example.com:8443", "", "is the host of --public-url"},
		{"https://ci.example.com", "https://content.example.com/files", "", "is not an origin"},
		{"https://ci.example.com", "content.example.com", "", "is not an origin"},
		{"", "https://content.example.com", "", "give --public-url too"},
	} {
		given := map[string]string{"listen": "127.0.0.1:8080", "data": t.TempDir(), "agent-lost-after": "3m", "deregister-stacks-after": "24h", "keep-events": "720h", "public-url": c.public, "content-url": c.content}
		s, err := ParseSettings(func(flag string) string { return given[flag] })
		switch {
		case c.wrong == "" && (err != nil || s.Content != c.want):
			t.Errorf("%q: %q, %v", c.content, s.Content, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), "--content-url: ") || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q: %v, want %s", c.content, err, c.wrong)
		}
	}
}
