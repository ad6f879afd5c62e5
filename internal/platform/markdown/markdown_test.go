package markdown_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"stackyard/internal/platform/markdown"
)

func rendered(t testing.TB, text string) string {
	t.Helper()
	html, err := markdown.Render(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return html
}

func TestRender_ReadsMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"*one* and two":                     "<p><em>one</em> and two</p>\n",
		"# Head\n\n- [x] a\n- b\n":          "<h1>Head</h1>\n<ul>\n<li> a</li>\n<li>b</li>\n</ul>\n",
		"|a|b|\n|-|-|\n|`x\\|y`|~~z~~|\n":   "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td><code>x|y</code></td>\n<td><del>z</del></td>\n</tr>\n</tbody>\n</table>\n",
		"[a]: https://x.test\n\n[a]":        `<p><a href="https://x.test" rel="nofollow">a</a></p>` + "\n",
		"![i](artifact://a/b.png)":          `<p><img src="artifact://a/b.png" alt="i"></p>` + "\n",
		"<details open>\n\nx\n\n</details>": "<details open=\"\">\n<p>x</p>\n</details>",
		"```go\na < b\n```":                 "<pre><code class=\"language-go\">a &lt; b\n</code></pre>\n",
	} {
		if got := rendered(t, text); got != want {
			t.Errorf("%q is rendered as\n%s, not as\n%s", text, got, want)
		}
	}
}

func TestRender_EndsWhatBeginsAndNothingElse(t *testing.T) {
	for text, want := range map[string]string{
		"</div></main>x":            "x",
		"<div><b>x":                 "<div><b>x</b></div>",
		"<div/>x":                   "<div/>x</div>",
		"<b>a</i>b</b>":             "<p><b>ab</b></p>\n",
		"<ul><li>a<li>b</ul>":       "<ul><li>a</li><li>b</li></ul>",
		"<table><tr><td>a<tr><td>b": "<table><tr><td>a</td></tr><tr><td>b</td></tr></table>",
	} {
		if got := rendered(t, text); got != want {
			t.Errorf("%q is rendered as %q, not as %q", text, got, want)
		}
	}
}

func TestRender_ShowsWhatIsTooComplexAsItWasWritten(t *testing.T) {
	for name, text := range map[string]string{
		"emphasis": strings.Repeat("*a_ ", 30_000),
		"nesting":  strings.Repeat("<div>", 200) + "<b>&",
		"output":   "[a]: /" + strings.Repeat("x", 1000) + "\n\n" + strings.Repeat("\n\n[a]", 2000),
		"lines":    strings.Repeat("-\n", 60_000),
	} {
		got := rendered(t, text)
		if !strings.Contains(got, "too complex") || !strings.Contains(got, "<pre>") || strings.Contains(got, "<div>") {
			t.Errorf("%s is shown as %.200q", name, got)
		}
	}
	if got := rendered(t, strings.Repeat("<div>", 200)+"<b>&"); !strings.HasSuffix(got, "&lt;div&gt;&lt;b&gt;&amp;</pre>\n") {
		t.Errorf("the text is shown as %q", got)
	}
	if got := rendered(t, strings.Repeat("\"*", 1<<20)); len(got) > markdown.MaxHTML || !strings.HasSuffix(got, "…</pre>\n") {
		t.Errorf("a text whose HTML is too large is shown as %d bytes that end with %q", len(got), got[len(got)-20:])
	}
}

func TestRender_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	cancel(gone)
	if _, err := markdown.Render(ctx, strings.Repeat("a *b* `c`\n\n", 10_000)); !errors.Is(err, gone) {
		t.Errorf("the error is %v", err)
	}
}

func TestRender_ShowsNothingThatRuns(t *testing.T) {
	for _, text := range []string{
		"<script>alert(1)</script>",
		`<img src="x" onerror="alert(1)">`,
		"[x](javascript:alert(1))",
		`<a href="data:text/html,x">x</a>`,
		`<iframe src="https://evil.test"></iframe>`,
		`<style>body{display:none}</style>`,
	} {
		html := strings.ToLower(rendered(t, text))
		for _, bad := range []string{"script", "onerror", "data:", "iframe", "<style"} {
			if strings.Contains(html, bad) {
				t.Errorf("%s is shown as %s", text, html)
			}
		}
	}
}
