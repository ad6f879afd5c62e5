package joblog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	terminal "github.com/buildkite/terminal-to-html/v3"
)

// split writes a text in parts that end anywhere.
func split(t testing.TB, w io.Writer, text string, sizes ...int) {
	t.Helper()
	for i := 0; len(text) > 0; i++ {
		n := min(len(text), max(1, sizes[i%len(sizes)]))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
}

func TestWhole_HandsOnWholeCharacters(t *testing.T) {
	for _, text := range []string{"", "plain", "héllo wörld", "日本語 🎉🎉", "a\xffb", "\xe6\x97", "🎉"[:3], "\xf0\x9f\x8e", "end\xc3"} {
		for size := 1; size < 6; size++ {
			var parts []string
			h := &utf8Writer{to: writer(func(b []byte) error {
				if !utf8.Valid(b) {
					t.Errorf("%q in parts of %d: handed on %q", text, size, b)
				}
				parts = append(parts, string(b))
				return nil
			})}
			split(t, h, text, size)
			if err := h.flush(); err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(strings.Join(parts, ""), "\ufffd", "?")
			want := strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\ufffd", "?")
			if strings.ReplaceAll(got, "??", "?") != want && got != want {
				t.Errorf("%q in parts of %d became %q", text, size, got)
			}
		}
	}
}

type writer func([]byte) error

func (f writer) Write(b []byte) (int, error) { return len(b), f(b) }

// Text written as JSON is read back, for any text and any split.
func FuzzQuoted(f *testing.F) {
	f.Add("plain", uint8(3))
	f.Add("\x1b[31m\"quoted\" \\ <&>\u2028\r\n\x00", uint8(1))
	f.Add("日本語 🎉\xff\xfe", uint8(2))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		var b bytes.Buffer
		b.WriteByte('"')
		h := &utf8Writer{to: jsonStringWriter{&b}}
		split(t, h, text, int(size))
		if err := h.flush(); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('"')
		var got string
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", b.Bytes(), err)
		}
		if utf8.ValidString(text) && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func TestHeaderTimes_AreThoseOfSections(t *testing.T) {
	const at = "\x1b_bk;t=%d\x07"
	stamp := func(ms int) string { return fmt.Sprintf(at, ms) }
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"none":             {"hello\r\n", "[]"},
		"no time":          {"--- a\r\n+++ b\r\n", "[]"},
		"each kind":        {stamp(1) + "--- a\r\n" + stamp(2) + "+++ b\r\n" + stamp(3) + "~~~ c", "[1000000 2000000 3000000]"},
		"not a section":    {stamp(1) + "---a\r\n" + stamp(2) + " --- b\r\n" + stamp(3) + "x--- c\r\n" + stamp(4) + "----\r\n" + stamp(5) + "^^^ +++\r\n", "[]"},
		"colours":          {stamp(7) + "\x1b[90m--- \x1b[0ma\r\n", "[7000000]"},
		"a title":          {"\x1b]0;title\x07" + stamp(7) + "--- a\r\n", "[7000000]"},
		"later":            {stamp(7) + "a\r\n\x1b_bk;dt=3\x07--- b\r\n", "[10000000]"},
		"ended by ESC \\":  {"\x1b_bk;t=9\x1b\\--- a\r\n", "[9000000]"},
		"nonsense":         {"\x1b_bk;t=x\x07--- a\r\n\x1b_bk;t=-5\x07--- a\r\n\x1b_bk;t=99999999999999999999\x07--- b\r\n", "[]"},
		"endless sequence": {"\x1b_" + strings.Repeat("x", 1000) + "\x07" + stamp(1) + "--- a\n", "[1000000]"},
		"in the middle":    {"text " + stamp(3) + "--- not here\r\n+++ here\n", "[3000000]"},
	} {
		for size := 1; size < 20; size += 6 {
			var h headerTimes
			split(t, &h, c.text, size)
			if got := fmt.Sprint(append([]int64{}, h.found...)); got != c.want {
				t.Errorf("%s, in parts of %d: %s, want %s", name, size, got, c.want)
			}
		}
	}
}

func TestHeaderTimes_AreBounded(t *testing.T) {
	var h headerTimes
	io.WriteString(&h, "\x1b_bk;t=1\x07"+strings.Repeat("--- a\n", maxHeaders+10))
	if len(h.found) != maxHeaders {
		t.Errorf("%d were found", len(h.found))
	}
}

// render renders a text as HTML.
func render(t testing.TB, text string, sizes ...int) string {
	t.Helper()
	screen, err := terminal.NewScreen(terminal.WithSize(screenColumns, screenLines), terminal.WithMaxSize(screenColumns, screenLines))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	screen.ScrollOutFunc = func(line string) { out.WriteString(sanitizeLinks(line)) }
	h := &utf8Writer{to: &escapeFilter{to: screen}}
	split(t, h, text, sizes...)
	if err := h.flush(); err != nil {
		t.Fatal(err)
	}
	out.WriteString(sanitizeLinks(screen.AsHTML()))
	return out.String()
}

func TestHTML_IsSanitized(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"text":         {`<script>alert("1")</script> & '`, `&lt;script&gt;alert(&quot;1&quot;)&lt;&#47;script&gt; &amp; &#39;`},
		"link":         {"\x1b]8;;https://example.test/a?b&c\x07text\x1b]8;;\x07", `<a href="https://example.test/a?b&amp;c">text</a>`},
		"script":       {"\x1b]8;;javascript:alert(1)\x07text\x1b]8;;\x07", `<a href="#">text</a>`},
		"data":         {"\x1b]8;;data:text/html,<script>\x07text\x1b]8;;\x07", `<a href="#">text</a>`},
		"other link":   {"\x1b]1339;url=vbscript:x;content=text\x07", `<a href="#">text</a>`},
		"hidden link":  {"\x1b]1339;url=data:text/html,x;content='a;url=https://example.test'\x07", `<a href="#">a;url=https://example.test</a>`},
		"artifact":     {"\x1b]1339;url=artifact://a/b;content=text\x07", `<a href="artifact://a/b">text</a>`},
		"picture":      {"\x1b]1338;url=https://example.test/a.png;alt=\"<\"\x07", `<img alt="&lt;" src="https://example.test/a.png">`},
		"own picture":  {"\x1b]1337;File=name=YS5naWY=;inline=1:AAAA\x07", `<img alt="a.gif" src="data:image/gif;base64,AAAA">`},
		"bad picture":  {"\x1b]1338;url=data:text/html,x\x07", `src="#"`},
		"long escape":  {"a\x1b[" + strings.Repeat("1;", maxLink) + "mb", "ab"},
		"long link":    {"a\x1b]8;;https://" + strings.Repeat("x", maxLink) + "\x07b", "ab"},
		"long picture": {"a\x1b]1337;File=name=YS5naWY=;inline=1:" + strings.Repeat("A", maxEscape) + "\x07b", "ab"},
		"endless":      {"a\x1b]" + strings.Repeat("x", maxEscape+1) + "\nb", "ab"},
		"NUL":          {"a\x00b", "ab"},
		"hidden NUL":   {"\x1b]1337;File=name=AC5naWY=;inline=1:AAAA\x07", `alt=".gif"`},
		"many links":   {strings.Repeat("\x1b]1339;url=/x;content=y\x07\r", 100*maxElements) + "\nend", "\nend"},
	} {
		for _, size := range []int{1 << 20, 1000, 7} {
			got := render(t, c.text, size)
			if got = strings.TrimSuffix(got, "\n&nbsp;"); !strings.Contains(got, c.want) {
				t.Errorf("%s, in parts of %d: %.300s, want %s", name, size, got, c.want)
			}
		}
	}
}

// The cost of rendering is proportional to the size of the text.
func TestHTML_CostIsLinear(t *testing.T) {
	link := "\x1b]8;;https://example.test/" + strings.Repeat("y", 4000) + "\x07"
	for name, text := range map[string]string{
		"one link":      link + strings.Repeat("\x1b[1ma\x1b[0mb", 10_000),
		"links":         strings.Repeat(link+strings.Repeat("\x1b[1ma\x1b[0mb", 70)+"\n", 50),
		"colors":        "\x1b[1;3;4;9;38;5;120;48;5;33m" + strings.Repeat("a\x1b[31mb\x1b[32m", 10_000),
		"far right":     strings.Repeat("\x1b[160Gx\n", 20_000),
		"cleared":       strings.Repeat(strings.Repeat("a", 160)+"\n", 100) + strings.Repeat("\x1b[2J", 30_000),
		"inserted":      strings.Repeat("a\n", 100) + strings.Repeat("\x1b[L", 30_000),
		"parameters":    strings.Repeat("\x1b["+strings.Repeat("1;", 2000)+"m", 100),
		"pictures":      strings.Repeat("\x1b]1337;File=name=x;inline=1:"+strings.Repeat("A", 2000)+"\x07", 100),
		"line metadata": strings.Repeat("\x1b_bk;t=1700000000000\x07", 10_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := render(t, text, 32<<10)
		runtime.ReadMemStats(&after)
		if len(out) > 32*len(text) {
			t.Errorf("%s: %d bytes become %d", name, len(text), len(out))
		}
		if used := int(after.TotalAlloc - before.TotalAlloc); used > 1<<20+512*len(text) {
			t.Errorf("%s: %d bytes allocate %d", name, len(text), used)
		}
	}
}

func FuzzHTML(f *testing.F) {
	for _, text := range []string{"plain\r\n", "\x1b[31mred\x1b[0m", "\x1b]8;;javascript:x\x07a", "\x1b]1337;File=name=YQ==;inline=1:x\x07", "\x1b]1338;url=a\x1b\\", "\x1b_bk;t=1\x07", "\x1b[2A\x1b[1000B\x1b[J\x1b[K\x1bM\x1b7\x1b8", "\r\n\r\r\b\t", "a\x00b"} {
		f.Add(text, uint8(5))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		out := render(t, text, int(size))
		for _, bad := range []string{"\x00", "<script", `="javascript:`, `href="data:`} {
			if strings.Contains(strings.ToLower(out), bad) {
				t.Errorf("%q became %s", text, out)
			}
		}
	})
}

func FuzzRange(f *testing.F) {
	for _, header := range []string{"", "bytes=-1", "bytes=0-5", "bytes=-0", "bytes=-1,-2", "bytes=-99999999999999999999"} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		n, err := parseRange(header)
		switch {
		case header == "" && (n != 0 || err != nil):
			t.Errorf("without a header: %d, %v", n, err)
		case header != "" && err == nil && n <= 0:
			t.Errorf("%q asks for %d bytes", header, n)
		case err == nil && strings.Contains(header, ","):
			t.Errorf("%q is one range", header)
		}
	})
}
