package markdown

import (
	"context"
	"runtime"
	"strings"
	"testing"
)

// hostile are texts that cost Markdown parsers more than linear time or memory, by the part that they repeat,
// with a prefix and a suffix.
var hostile = []struct{ before, piece, after string }{
	{"", "*a_ ", ""}, {"", "[a](", ""}, {"", "> ", ""}, {"", "1) ", ""}, {"", "[a]: x\n", ""}, {"", "* ", ""},
	{"", "[", ""}, {"", "]", ""}, {"", "![", "](b)](b)"}, {"[a]: /" + strings.Repeat("x", 2000) + "\n\n", "[a]", ""},
	{"", "`a ", ""}, {"", "`", "a"}, {"x ", `<a b="`, ""}, {"x ", `<a b='" `, ""}, {"x ", "<a ", ""}, {"x <a ", "b ", ">"},
	{"", "<div>", ""}, {"x ", "<b>", ""}, {"", "<", ""}, {"<", "a", ""}, {"", "<a b=\"\n\n", ""}, {"", "&", ""}, {"", "&#x", ""},
	{"", "a@", ""}, {"", "a~~~", ""}, {"x", "~~a", ""}, {"", "(http://a.b/?", ""}, {"", " www.a", ""},
	{"", "a\n", ""}, {"", "-\n", ""}, {"", "- a\n\n", ""}, {"", "`a`\n\n", ""}, {strings.Repeat("> ", 90), "a\n", ""},
	{"", "a\n=\n", ""}, {"|a|\n|-|\n", "|`\\|`\n", ""}, {"|a|\n|-|\n|", "`\\|`", "|\n"}, {"", "|-\n", ""},
	{strings.Repeat("|a", 500) + "\n" + strings.Repeat("|-", 500) + "\n", "|x\n", ""},
	{`<a t="` + "`" + `">`, "*a_ ", "`"}, {"", "\\", ""}, {"", "*", "a"}, {"a", "*", ""}, {"*a ", "[a](b)", ""},
	{strings.Repeat("[", 400), "`a`b", strings.Repeat("]", 400)}, {"", `[a](b "`, ""}, {"", `[a](b 'x" `, ""}, {"", "[a](<b ", ""},
	{"a", " ", "b"}, {"", ">\t", ""}, {"```\n", "x *a*\n", ""}, {"x ", "<!-- ", ""}, {"x ", "<? ", ""}, {"x ", "<![CDATA[", ""},
	{"", "* * * * x\n", ""}, {"", "[a]: x\n(b\n", ""}, {"", "[a]: x '", ""}, {"", "\x00", ""}, {"", "\xff*", ""}, {"    a\n", "\n", ""},
	{"", "The *quick* fox `jumps` over [the](http://x.y/lazy_dog). See https://example.com/a_b.\n\n", ""},
}

// nested is a list in which each item is one level deeper.
func nested(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		b.WriteString(strings.Repeat(" ", 2*i) + "- a\n")
	}
	return b.String()
}

// cost renders a text and fails the test when it allocates too many bytes per byte of text, or does more work
// than its budget.
func cost(t *testing.T, text string) {
	t.Helper()
	const base, each = 8 << 20, 1024
	m := newMeter(context.Background(), len(text))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	html, err := convert(m, text)
	if err != nil {
		html = escaped(text)
	}
	runtime.ReadMemStats(&after)
	name := text[:min(len(text), 60)]
	if used := after.TotalAlloc - before.TotalAlloc; used > base+each*uint64(len(text)) {
		t.Errorf("%q… of %d bytes allocates %d bytes, %d for each", name, len(text), used, used/uint64(len(text)))
	}
	// The charge that exceeds the budget is for work that is not done.
	if err == nil && m.left < 0 {
		t.Errorf("%q… was rendered for more than its budget", name)
	}
	if limit := min(MaxHTML, len(tooComplex)+baseHTML+htmlPerByte*len(text)); len(html) > limit {
		t.Errorf("%q… of %d bytes becomes %d bytes", name, len(text), len(html))
	}
	if again, err := tidy(html); err != nil || again != html {
		t.Errorf("%q… is not well formed: %v", name, err)
	}
}

func TestRender_CostIsLinear(t *testing.T) {
	for _, size := range []int{8 << 10, 128 << 10} {
		for _, h := range hostile {
			cost(t, h.before+strings.Repeat(h.piece, size/len(h.piece))+h.after)
		}
		cost(t, nested(size))
	}
	cost(t, strings.Repeat("|a", 5000)+"\n"+strings.Repeat("|-", 5000)+"\n"+strings.Repeat("|x\n", 20_000))
}

// FuzzRender searches for a part that costs too much when it is repeated.
func FuzzRender(f *testing.F) {
	for _, h := range hostile {
		f.Add(h.before, h.piece, h.after, uint16(1000))
	}
	f.Fuzz(func(t *testing.T, before, piece, after string, times uint16) {
		const most = 64 << 10
		if len(before)+len(after) > most {
			t.Skip()
		}
		n := int(times)
		if len(piece) > 0 {
			n = min(n, most/len(piece))
		}
		cost(t, before+strings.Repeat(piece, n)+after)
	})
}
