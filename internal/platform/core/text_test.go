package core

import (
	"testing"
)

func TestCut_KeepsWholeCharacters(t *testing.T) {
	for _, c := range []struct {
		text              string
		most              int
		characters, bytes string
	}{
		{"", 3, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abcd", 3, "abc", "abc"},
		{"grün", 3, "grü", "gr"},
		{"日本語", 2, "日本", ""},
		{"日本語", 4, "日本語", "日"},
		{"x", 0, "", ""},
	} {
		if got := Cut(c.text, c.most); got != c.characters {
			t.Errorf("Cut(%q, %d) = %q; want %q", c.text, c.most, got, c.characters)
		}
		if got := CutBytes(c.text, c.most); got != c.bytes {
			t.Errorf("CutBytes(%q, %d) = %q; want %q", c.text, c.most, got, c.bytes)
		}
	}
}
