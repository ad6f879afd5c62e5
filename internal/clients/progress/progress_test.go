package progress

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

func TestLine_FitsTheTerminal(t *testing.T) {
	for _, test := range []struct {
		done, total int64
		elapsed     time.Duration
		width       int
		want        string
	}{
		{0, 1000, 0, 80, "Downloading [                                        ]   0%  0 B of 1000 B"},
		{512, 1024, 2 * time.Second, 80, "Downloading [================                ]  50%  512 B of 1.0 KiB  256 B/s"},
		{3 << 20, 3 << 20, time.Second, 200, "Downloading [========================================] 100%  3.0 MiB of 3.0 MiB  3.0 MiB/s"},
		{5, 4, 0, 30, "Downloading 100%  5 B of 4 B"},
		{0, 0, 0, 12, "Downloading"},
		{0, 0, 0, 0, ""},
	} {
		got := line("Downloading", test.done, test.total, test.elapsed, test.width)
		if got != test.want || len(got) >= max(test.width, 1) {
			t.Errorf("%d of %d, width %d: %q, want %q", test.done, test.total, test.width, got, test.want)
		}
	}
}

func TestStart_ShowsNothingInAFile(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, out := range []any{file, &bytes.Buffer{}} {
		bar := Start(out, "Downloading", 10)
		if bar != nil {
			t.Errorf("a bar in %T", out)
		}
		bar.Add(1)
		bar.Printf("x")
		bar.End()
		if text, err := io.ReadAll(bar.Reader(strings.NewReader("all"))); err != nil || string(text) != "all" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

func TestBar_ShowsHowFarItIsOnATerminal(t *testing.T) {
	t.Setenv("CI", "")
	t.Setenv("TERM", "xterm")
	screen, file, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	bar := Start(file, "Downloading", 4)
	io.Copy(io.Discard, bar.Reader(strings.NewReader("four")))
	bar.Printf("Downloaded %s", "a.txt")
	bar.End()
	file.Close()
	seen, _ := io.ReadAll(screen) // ends with an error, because the other end is closed
	for _, want := range []string{"  0%  0 B of 4 B", "\x1b[KDownloaded a.txt\r\n", "100%  4 B of 4 B"} {
		if !strings.Contains(string(seen), want) {
			t.Errorf("%q is not in %q", want, seen)
		}
	}
}
