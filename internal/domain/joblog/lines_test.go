package joblog_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
)

// manyLines returns a log of n lines of different lengths, over many frames.
func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d %s\r\n", i+1, strings.Repeat("=", i%200))
	}
	return b.String()
}

func TestLineOffset_FindsLines(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		content := manyLines(10_000)
		job := w.run()
		const size = 300_000
		for at := 0; at < len(content); at += size {
			w.add(job, int64(at), content[at:min(at+size, len(content))])
		}
		w.add(job, int64(len(content))+100, "after a gap\nlast")
		for _, state := range []string{"running", "ended", "sealed"} {
			lines := strings.SplitAfter(content, "\n")
			lines = lines[:len(lines)-1]
			if state != "running" {
				lines = append(lines, "\r\n", "[100 bytes of the log are missing here]\r\n", "after a gap\n", "last")
			}
			l := w.open(job)
			at := int64(0)
			for i, line := range lines {
				if i%97 == 0 || i > 9990 {
					if got, err := l.LineOffset(t.Context(), int64(i)); err != nil || got != at {
						t.Fatalf("%s: line %d begins at %d, want %d; %v", state, i, got, at, err)
					}
				}
				at += int64(len(line))
			}
			for _, beyond := range []int64{int64(len(lines)), int64(len(lines)) + 1, 1 << 60} {
				if got, err := l.LineOffset(t.Context(), beyond); err != nil || got != l.Size {
					t.Errorf("%s: line %d begins at %d of %d; %v", state, beyond, got, l.Size, err)
				}
			}
			switch state {
			case "running":
				w.end(job)
			case "ended":
				w.runDue()
			}
		}
	})
}

func TestGetLog_OfSomeLines(t *testing.T) {
	eachPath(t, "one\r\ntwo\r\nthree", func(t *testing.T, w *fixture, path string) {
		for query, want := range map[string]string{
			"":                      "one\r\ntwo\r\nthree",
			"?first_line=1":         "one\r\ntwo\r\nthree",
			"?first_line=2":         "two\r\nthree",
			"?lines=1":              "one\r\n",
			"?first_line=2&lines=1": "two\r\n",
			"?first_line=3&lines=9": "three",
			"?first_line=4":         "",
			"?first_line=999999999": "",
		} {
			if got := w.As(t, servertest.Ada).Get(path + ".txt" + query).Want(http.StatusOK); string(got.Body) != want {
				t.Errorf("%s: %q, want %q", query, got.Body, want)
			}
		}
		for _, query := range []string{"?first_line=0", "?first_line=x", "?lines=-1", "?lines=99999999999999999999"} {
			w.As(t, servertest.Ada).With("Accept", "text/plain").Get(path + query).Want(http.StatusBadRequest)
		}
	})
}
