package logline_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"stackyard/internal/rules/logline"
)

func TestLine_RendersWhatATerminalShows(t *testing.T) {
	for raw, want := range map[string]string{
		"hello":                      "hello",
		"a < b & \"c\"":              "a &lt; b &amp; &#34;c&#34;",
		"one\rtwo":                   "two",
		"three\rtw":                  "twree",
		"50%\r\x1b[K100%":            "100%",
		"abc\x1b[2K\rd":              "d",
		"abc\b\bX":                   "aXc",
		"a\x1b[5Gb":                  "a   b",
		"x\x1b[1A\x1b[2Jy":           "xy", // other lines stay as they are
		"\x1b[31mred\x1b[0m":         `<span class="term-fgx1">red</span>`,
		"\x1b[1;4;91mx":              `<span class="term-fgx9 term-fg1 term-fg4">x</span>`,
		"\x1b[38;5;208mx":            `<span class="term-fgx208">x</span>`,
		"\x1b[38;2;255;95;0mx\x1b[m": `<span class="term-fgx202" data-fg="ff5f00">x</span>`,
		"\x1b[48:2::10:10:10mx":      `<span class="term-bgx232" data-bg="0a0a0a">x</span>`,
		"\x1b[7mx":                   `<span class="term-inverse">x</span>`,
		"\x1b[7;32mx":                `<span class="term-bgx2">x</span>`,
		"\x1b]8;;https://a.test/?b&c\ahi\x1b]8;;\a":                `<a href="https://a.test/?b&amp;c" rel="noopener noreferrer nofollow">hi</a>`,
		"\x1b]8;;javascript:alert(1)\x1b\\hi":                      "hi",
		"see https://a.test/x, now":                                `see <a href="https://a.test/x" rel="noopener noreferrer nofollow">https://a.test/x</a>, now`,
		"(https://a.test/(x))":                                     `(<a href="https://a.test/(x)" rel="noopener noreferrer nofollow">https://a.test/(x)</a>)`,
		"https://":                                                 "https://",
		"\x1b]1339;url='https://a.test';content='A B'\a":           `<a href="https://a.test" rel="noopener noreferrer nofollow">A B</a>`,
		"\x1b]1337;File=name=YQ==;inline=1:R0lGODlhAQABAAAAACw=\a": `<img alt="a" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">`,
		"\x1b]1339;url='artifact://out/a b.txt';content='A'\a":     `<a href="artifact://out/a b.txt" rel="noopener noreferrer nofollow">A</a>`,
		"\x1b]1338;url='artifact://out/\"a.png';alt='A'\a":         `<a href="artifact://out/&#34;a.png" rel="noopener noreferrer nofollow"><img alt="A" src="artifact://out/&#34;a.png" loading="lazy"></a>`,
		"\x1b]1338;url='https://a.test/a.png';alt='A'\a":           `<a href="https://a.test/a.png" rel="noopener noreferrer nofollow">A</a>`,
		"\x1b]1339;url='artifact://';content='A'\a":                "A",
		"\x1b]1337;File=inline=1:PHN2Zz4=\ax":                      "x",
		"bad \xff byte":                                            "bad \uFFFD byte",
		"\x1b]never ends":                                          "",
		"\x1b":                                                     "",
	} {
		if got := (&logline.Renderer{}).Line([]byte(raw)).HTML; got != want {
			t.Errorf("%q is\n%s, want\n%s", raw, got, want)
		}
	}
}

func TestLine_CarriesStylesAndTimesOver(t *testing.T) {
	var r logline.Renderer
	r.Skip([]byte("\x1b_bk;t=1700000000000\a\x1b[32mone"))
	l := r.Line([]byte("\x1b_bk;dt=1500\atwo"))
	if l.HTML != `<span class="term-fgx2">two</span>` || !l.At.Equal(time.UnixMilli(1700000001500)) {
		t.Errorf("the second line is %s at %s", l.HTML, l.At)
	}
}

func TestLine_KnowsHeadings(t *testing.T) {
	for text, want := range map[string]logline.Kind{
		"--- Build": logline.Collapsed, "+++ :hammer: Test": logline.Expanded, "~~~ Setup": logline.Quiet, "^^^ +++": logline.Opener,
		"---": logline.Plain, "----- x": logline.Plain, "--- FAIL: TestX": logline.Collapsed, "^^^ x": logline.Plain,
	} {
		if l := (&logline.Renderer{}).Line([]byte("\x1b_bk;t=1\a\x1b[1m" + text)); l.Kind != want {
			t.Errorf("%q is %q, want %q", text, l.Kind, want)
		}
	}
}

func TestLine_CutsLongLines(t *testing.T) {
	l := (&logline.Renderer{}).Line([]byte(strings.Repeat("x", logline.MaxLine+5)))
	if !strings.HasSuffix(l.HTML, `<span class="cut">… 5 more bytes in this line</span>`) {
		t.Errorf("a long line ends with %q", l.HTML[len(l.HTML)-80:])
	}
}

// Each of these lines would take seconds, or become huge, if every sequence did what it asks for.
func TestLine_LimitsWork(t *testing.T) {
	half := strings.Repeat("x", logline.MaxLine/2)
	for _, raw := range []string{
		half + strings.Repeat("\x1b[1K", 6000), half + "\r" + strings.Repeat("\x1b[P", 10000), half + strings.Repeat("\x1b[2Kx", 6000),
		"\x1b]8;;https://a.test/" + strings.Repeat("y", 1500) + "\a" + strings.Repeat("\x1b[1mx\x1b[0mx", 5000),
	} {
		if l := (&logline.Renderer{}).Line([]byte(raw)); len(l.HTML) > 1<<20 {
			t.Errorf("%.20q becomes %d bytes", raw, len(l.HTML))
		}
	}
}

func TestAppendText_LeavesOutEscapes(t *testing.T) {
	text, stamp := logline.AppendText(nil, []byte("\x1b_bk;t=1700000000000\a\x1b[31mred\x1b]8;;https://a.test\alink\x1b]8;;\a\x1b(B!\r"), 5)
	if string(text) != "redlink!" || stamp != 1700000000000 {
		t.Errorf("the text is %q at %d", text, stamp)
	}
}

func TestIsError(t *testing.T) {
	for text, want := range map[string]bool{
		"error: cannot find module": true, "main.go:3:1: error: x": true, "FAIL: TestX": true, "panic: runtime": true,
		"make: *** [all] Error 2": true, "src/a.ts(3,1): error TS2304: x": true, "npm ERR! code 1": true,
		"bash: foo: command not found": true, "Traceback (most recent call last):": true, "--- FAIL: TestX (0.00s)": true,
		"0 errors, 3 warnings": false, "10 errors found": false, "Error: 10 failed": true, "compiled without errors": false, "ok": false, "": false,
		"tests: 0 failed": false, "installing error-stack-parser": false,
	} {
		if got := logline.IsError([]byte(text)); got != want {
			t.Errorf("IsError(%q) is %t", text, got)
		}
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"a\x1b[31mb", "\x1b]8;;https://x\ay", "\x1b]8;;https://\x97\ay", "\x1b[38;2;1;2;3mx", "\x1b]1337;File=inline=1:AA\a", "https://a.test/<script>", "\x1b[99999Gx"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := (&logline.Renderer{}).Line(raw)
		if len(l.HTML) > 200*len(raw)+40_000 || !utf8.ValidString(l.HTML) {
			t.Fatalf("%d bytes become %d", len(raw), len(l.HTML))
		}
		for _, bad := range []string{"<script", "javascript:", "onerror=", "<svg"} {
			if strings.Contains(strings.ToLower(l.HTML), bad) && !strings.Contains(strings.ToLower(l.Text), bad) {
				t.Fatalf("%q becomes %q", raw, l.HTML)
			}
		}
	})
}
