package cli

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStampless_RemovesTimestamps(t *testing.T) {
	for log, want := range map[string]string{
		"plain\n":                             "plain\n",
		"\x1b_bk;t=1700000000000\ahello\n":    "hello\n",
		"a\x1b_bk;t=1\x1b\\b":                 "ab",
		"\x1b[31mred\x1b[0m\n":                "\x1b[31mred\x1b[0m\n",
		"\x1b\x1b[1m":                         "\x1b\x1b[1m",
		"\x1b\x1b_bk;t=1\ax":                  "\x1bx",
		"\x1b_never ended\nbut the line is\n": "\nbut the line is\n",
	} {
		var whole, byByte strings.Builder
		io.Copy(&stampless{out: &whole}, strings.NewReader(log))
		io.Copy(&stampless{out: &byByte}, iotest.OneByteReader(strings.NewReader(log)))
		if whole.String() != want || byByte.String() != want {
			t.Errorf("%q became %q, and byte by byte %q; want %q", log, whole.String(), byByte.String(), want)
		}
	}
}
