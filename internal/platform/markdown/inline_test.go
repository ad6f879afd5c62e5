package markdown

import (
	"strings"
	"testing"
)

func TestLabel_FormatsEmojisAndMarks(t *testing.T) {
	for text, want := range map[string]string{
		":hammer: Build":          "🔨 Build",
		"a:b:c :nothing: :tada:":  "a:b:c :nothing: 🎉",
		"10:30:00":                "10:30:00",
		"Run `make *all*`":        "Run <code>make *all*</code>",
		"**Very** *nice* _too_":   "<strong>Very</strong> <em>nice</em> <em>too</em>",
		"snake_case_name 2 * 3 *": "snake_case_name 2 * 3 *",
		"<b>&`<i>`":               "&lt;b&gt;&amp;<code>&lt;i&gt;</code>",
		"[docs](https://a.test)":  "docs",
		"[x](javascript:alert)":   "[x](javascript:alert)",
	} {
		if got := Label(text); got != want {
			t.Errorf("Label(%q) is %s, want %s", text, got, want)
		}
	}
	if got := Prompt("See [docs](https://a.test/?a&b)\nand go"); got != `See <a href="https://a.test/?a&amp;b" rel="noopener noreferrer nofollow">docs</a><br>`+"\nand go" {
		t.Errorf("the prompt is %s", got)
	}
	if got := Label(strings.Repeat("*a*", 5000)); strings.Contains(got, "<em>") {
		t.Error("a long label was formatted")
	}
}
