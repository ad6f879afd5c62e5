package joblog

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"stackyard/internal/platform/core"
)

func TestParseChunk(t *testing.T) {
	for _, c := range []struct{ query, want string }{
		{"sequence=1&offset=0&size=5", "{1 0} 5"},
		{"sequence=0&offset=1073741824&size=1048576", "{0 1073741824} 1048576"},
		{"offset=0&size=5", "sequence must be an integer from 0 to 70368744177664"},
		{"sequence=1&size=5", "offset must be an integer from 0 to 70368744177664"},
		{"sequence=1&offset=0", "size must be an integer from 0 to 70368744177664"},
		{"sequence=1&offset=-1&size=5", "offset must be an integer from 0 to 70368744177664"},
		{"sequence=1&offset=0x5&size=5", "offset must be an integer from 0 to 70368744177664"},
		{"sequence=1&offset=99999999999999999999&size=5", "offset must be an integer from 0 to 70368744177664"},
		{"sequence=1&offset=0&size=1048577", "A chunk has at most 1048576 bytes, not 1048577"},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		chunk, size, err := parseChunk(query)
		got := fmt.Sprint(chunk, size)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
}

// zipped returns a text in the encoding of agents.
func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpack_ReadsNoMoreThanWasPromised(t *testing.T) {
	var to bytes.Buffer
	if err := unpack(&to, zipped(t, "hello"), 5); err != nil || to.String() != "hello" {
		t.Errorf("%q, %v", to.String(), err)
	}
	to.Reset()
	bomb := zipped(t, strings.Repeat("x", 100<<20))
	if err := unpack(&to, bomb, 10); err != nil || to.Len() != 11 {
		t.Errorf("%d bytes, %v", to.Len(), err)
	}
	for _, bad := range [][]byte{nil, []byte("plain"), zipped(t, "hello")[:20], append(zipped(t, "hello"), "rest"...)} {
		to.Reset()
		if err := unpack(&to, bad, 5); core.KindOf(err) != core.BadRequest && to.String() != "hello" {
			t.Errorf("%q: %q, %v", bad, to.String(), err)
		}
	}
}

func FuzzChunk(f *testing.F) {
	f.Add("sequence=1&offset=0&size=5", zipped(f, "hello"))
	f.Add("sequence=1&offset=0&size=0", []byte{})
	f.Add("sequence=-1&offset=&size=99999999999999999999", []byte("plain"))
	f.Fuzz(func(t *testing.T, query string, body []byte) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		c, size, err := parseChunk(values)
		if err != nil {
			if kind := core.KindOf(err); kind != core.BadRequest && kind != core.TooLarge {
				t.Errorf("%s: %v", query, err)
			}
			return
		}
		if c.Offset < 0 || c.Sequence < 0 || size < 0 || size > maxChunk {
			t.Errorf("%s: %v %d", query, c, size)
		}
		var to bytes.Buffer
		if err := unpack(&to, body, size); err == nil && int64(to.Len()) > size+1 {
			t.Errorf("%d bytes of %d", to.Len(), size)
		}
	})
}
