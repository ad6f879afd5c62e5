package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// redacted returns the redacted output of a sequence of writes.
func redacted(t testing.TB, secrets []string, writes ...string) string {
	t.Helper()
	var out bytes.Buffer
	r := New(&out)
	r.Add(secrets...)
	for _, text := range writes {
		if n, err := r.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(text), err)
		}
	}
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const key = "-----BEGIN KEY-----\nQUJDREVGRw+/x\nshort\n\n}\n-----END KEY-----\n"

func TestRedactor_ReplacesValues(t *testing.T) {
	inBase64 := base64.StdEncoding.EncodeToString
	tests := []struct {
		name    string
		secrets []string
		writes  []string
		want    string
	}{
		{"none", nil, []string{"hunter2 "}, "hunter2 "},
		{"one", []string{"hunter2"}, []string{"it is hunter2.\n"}, "it is [REDACTED].\n"},
		{"split", []string{"hunter2"}, []string{"it is hu", "n", "ter2.\n"}, "it is [REDACTED].\n"},
		{"only begun", []string{"hunter2"}, []string{"it is hunt", "ing.\n"}, "it is hunting.\n"},
		{"begun at the end", []string{"hunter2"}, []string{"it is hunte"}, "it is hunte"},
		{"twice in a row", []string{"hunter2"}, []string{"hunter2hunter2"}, "[REDACTED][REDACTED]"},
		{"repeating itself", []string{"abcabcab"}, []string{"xabcabcabcabcabx"}, "x[REDACTED]x"},
		{"one in the other", []string{"hunter2", "a hunter2 in winter"}, []string{"a hunter2 in w", "inter"}, "[REDACTED]"},
		{"one into the other", []string{"password", "wordplay"}, []string{"passwordplay"}, "[REDACTED]"},
		{"too short", []string{"pass", ""}, []string{"a pass"}, "a pass"},
		{"over lines", []string{key}, []string{"key:\r\n" + strings.ReplaceAll(key, "\n", "\r\n")}, "key:\r\n[REDACTED]\r\n"},
		{"over lines of terminals in terminals", []string{key}, []string{strings.ReplaceAll(key, "\n", "\r\r\n")}, "[REDACTED]\r\r\n"},
		{"one line of many", []string{key}, []string{"see QUJDREVGRw+/x!"}, "see [REDACTED]!"},
		{"as JSON", []string{"say \"one\"\ntwo"}, []string{`{"v":"say \"one\"\ntwo"}`}, `{"v":"[REDACTED]"}`},
		{"in base64", []string{"hunter2"}, []string{inBase64([]byte("hunter2"))}, "[REDACTED]"},
		{"in base64 for URLs", []string{"hun?ter>>>2"}, []string{base64.URLEncoding.EncodeToString([]byte("hun?ter>>>2"))}, "[REDACTED]"},
		{"in hex", []string{"hunter2"}, []string{"x68756e74", "65723278"}, "x[REDACTED]78"},
		{"in upper-case hex", []string{"kitten?"}, []string{"6B697474656E3F"}, "[REDACTED]"},
		{"in hex over lines", []string{"hunter2"}, []string{"68756e\r\n74657232"}, "[REDACTED]"},
		{"in colors", []string{"hunter2"}, []string{"a \x1b[1mhun\x1b[31;4mter\x1b[0m2\x1b[m b"}, "a \x1b[1m[REDACTED]\x1b[m b"},
		{"in colors, split", []string{"hunter2"}, []string{"a hun\x1b", "[31", "mter", "\x1b[0", "m2 b"}, "a [REDACTED] b"},
		{"in colors over lines", []string{key}, []string{strings.ReplaceAll(key, "\n", "\x1b[K\r\n\x1b[2m")}, "[REDACTED]\x1b[K\r\n\x1b[2m"},
		{"in a link's text", []string{"hunter2"}, []string{"hun\x1b]8;;https://x.test/\x1b\\ter\x1b]8;;\x072"}, "[REDACTED]"},
		{"in a link", []string{"hunter2"}, []string{"\x1b]8;;https://x.test/hunter2\x07a"}, "\x1b]8;;https://x.test/[REDACTED]\x07a"},
		{"in a link and around it", []string{"hunter2"}, []string{"hun\x1b]8;;hunter2\x07ter2"}, "[REDACTED]"},
		{"with bytes that are not shown", []string{"hunter2"}, []string{"h\x00unter\x7f2"}, "[REDACTED]"},
		{"with an escape sequence in it", []string{"hun\x1b[1mter2"}, []string{"hun\x1b[1mter2 hunter2"}, "[REDACTED] [REDACTED]"},
		{"in colors, in base64", []string{"hunter2"}, []string{"\x1b[32maHVu\x1b[0mdGVyMg=="}, "\x1b[32m[REDACTED]"},
		{"only begun in colors", []string{"hunter2"}, []string{"hun\x1b[1mting"}, "hun\x1b[1mting"},
		{"in base64 with one byte before", []string{"hunter2"}, []string{inBase64([]byte(":hunter2"))}, "Om[REDACTED]"},
	}
	for _, tt := range tests {
		if got := redacted(t, tt.secrets, tt.writes...); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRedactor_FindsValuesInBase64WhateverIsAroundThem(t *testing.T) {
	secret := strings.Repeat("correct horse battery staple ", 4)
	for before := range 7 {
		for behind := range 7 {
			text := strings.Repeat("<", before) + secret + strings.Repeat(">", behind)
			got := redacted(t, []string{secret}, wrapped(base64.StdEncoding.EncodeToString([]byte(text))))
			if strings.Count(got, Mark) != 1 {
				t.Errorf("%q: %q", text, got)
			}
			// What remains belongs to neighboring bytes, with the characters that they share.
			most := base64.StdEncoding.EncodedLen(before) + base64.StdEncoding.EncodedLen(behind+2)
			if left := strings.ReplaceAll(got, Mark, ""); len(left) > most {
				t.Errorf("%q: %q is left, want at most %d characters", text, left, most)
			}
		}
	}
}

// wrapped breaks base64 into lines, as the base64 command does on a terminal.
func wrapped(text string) string {
	var b strings.Builder
	for part := range slices.Chunk([]byte(text), 76) {
		b.Write(part)
		b.WriteString("\r\n")
	}
	return strings.TrimSuffix(b.String(), "\r\n")
}

func TestAdd_CountsInWhatIsHeldBackAndAfter(t *testing.T) {
	var out bytes.Buffer
	r := New(&out)
	r.Add("hunter2-one")
	fmt.Fprint(r, "a hunter2")
	if short := r.Add("hunter2", "abc", ""); short != 1 {
		t.Errorf("%d too short, want 1", short)
	}
	fmt.Fprint(r, " b hunter2-one c hunter2 d")
	r.Flush()
	if got := out.String(); got != "a [REDACTED] b [REDACTED] c [REDACTED] d" {
		t.Errorf("got %q", got)
	}
}

func TestWrite_HoldsBackABoundedAmount(t *testing.T) {
	r := New(&bytes.Buffer{})
	r.Add("hunter2-and-more")
	for range 1000 {
		fmt.Fprint(r, "hunter2", strings.Repeat("\n", 1000), "hunter2-and-mor")
	}
	if len(r.pending) > 1000 {
		t.Errorf("%d bytes are held back", len(r.pending))
	}
}

func TestWrite_HoldsBackABoundedAmountOfEscapes(t *testing.T) {
	r := New(&bytes.Buffer{})
	r.Add("hunter2-and-more")
	for _, endless := range []string{"\x1b]8;;", "\x1b[", "\x1b[1m"} {
		fmt.Fprint(r, "hunter2", strings.Repeat(endless, 100_000/len(endless)), "hunter2-and-mor")
		if most := 16 * maxHidden; len(r.pending) > most || len(r.hidden) > most {
			t.Errorf("%q: %d bytes are held back, with %d spans", endless, len(r.pending), len(r.hidden))
		}
		r.Flush()
	}
}

// oracle replaces values by brute force: it searches each value at each position and merges overlaps.
func oracle(secrets []string, text string) string {
	covered := make([]int, len(text)) // the number of the span that a byte is in
	spans := []span{}
	for _, secret := range secrets {
		for _, form := range Forms(secret) {
			var pattern strings.Builder
			for i, c := range []byte(form) {
				if i > 0 {
					fmt.Fprintf(&pattern, `[\r\n]{0,%d}`, maxBreaks)
				}
				fmt.Fprintf(&pattern, `\x{%02x}`, c)
			}
			find := regexp.MustCompile("^(?:" + pattern.String() + ")")
			for start := range text {
				if at := find.FindStringIndex(text[start:]); at != nil {
					spans = append(spans, span{start, start + at[1]})
				}
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	var joined []span
	for _, s := range spans {
		if last := len(joined) - 1; last >= 0 && joined[last].end > s.start {
			joined[last].end = max(joined[last].end, s.end)
		} else {
			joined = append(joined, s)
		}
	}
	for i, s := range joined {
		for at := s.start; at < s.end; at++ {
			covered[at] = i + 1
		}
	}
	var b strings.Builder
	for i := range text {
		switch {
		case covered[i] == 0:
			b.WriteByte(text[i])
		case i == 0 || covered[i-1] != covered[i]:
			b.WriteString(Mark)
		}
	}
	return b.String()
}

// FuzzRedactor compares the redactor with the oracle, for any split into writes.
func FuzzRedactor(f *testing.F) {
	f.Add("abcabcab", "bcabcabc", "xabcabcabcabcabx", uint64(1))
	f.Add("hunter2", "a\nhunter2\r\nb", "a\r\nhunter2\n\n\nb a\n\n\n\n\n\n\n\n\n\nhunter2", uint64(2))
	f.Add("hunter2", "two\x1b[1msecrets", "hun\x1b[1mter2 two\x1b]8;;x\x07secrets 68756e74\x1b[m657232", uint64(4))
	f.Add("secret", "no secret", "bm8gc2VjcmV0 secret c2VjcmV0", uint64(3))
	f.Fuzz(func(t *testing.T, one, two, text string, seed uint64) {
		if !ascii(one+two+text) || len(one)+len(two)+len(text) > 500 {
			t.Skip() // the oracle's patterns are about characters, and slow
		}
		secrets := []string{one, two}
		whole := redacted(t, secrets, text)
		if strings.ContainsFunc(one+two+text, func(r rune) bool { return isControl(byte(r)) }) {
			// The oracle does not interpret escape sequences.
			for _, secret := range secrets {
				visible := joined(visibleText(whole))
				if form := joined(visibleText(strings.Trim(secret, "\r\n"))); len(form) >= MinLength && !strings.ContainsAny(text, "\r\n") && strings.Contains(visible, form) && !strings.Contains(Mark, form) {
					t.Errorf("secret %q in %q: %q shows %q", secret, text, whole, visible)
				}
			}
		} else if want := oracle(secrets, text); whole != want {
			t.Errorf("secrets %q in %q: got %q, want %q", secrets, text, whole, want)
		}
		random := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for rest := text; rest != ""; {
			n := 1 + random.IntN(min(len(rest), 8))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := redacted(t, secrets, pieces...); got != whole {
			t.Errorf("secrets %q in %q: got %q, in one piece %q", secrets, pieces, got, whole)
		}
	})
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

func BenchmarkRedactor(b *testing.B) {
	line := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog ", 20) + "\r\n")
	var sink bytes.Buffer
	r := New(&sink)
	r.Add("hunter2-hunter2", key, "another secret", strings.Repeat("long", 200))
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		sink.Reset()
		r.Write(line)
	}
}
