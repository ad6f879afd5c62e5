// Package progress shows on a terminal how far uploads and downloads are.
//
//	bar := progress.Start(os.Stderr, "Downloading", total)
//	defer bar.End()
//	io.Copy(file, bar.Reader(body))
//
// Elsewhere, and in jobs, whose logs it would fill, nothing is shown: [Start] returns nil, and the methods of a nil [Bar] do
// nothing.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// interval is the least time between two updates.
const interval = 100 * time.Millisecond

// A Bar shows how many bytes of a total were transferred. Several transfers can use it at once.
type Bar struct {
	out   *os.File
	what  string
	total int64

	lock        sync.Mutex
	done        int64
	begun, last time.Time
}

// Start shows a bar on a terminal. what says what happens, for example "Downloading".
func Start(out any, what string, total int64) *Bar {
	file, ok := out.(*os.File)
	if !ok || file == nil || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" || os.Getenv("CI") != "" {
		return nil
	}
	b := &Bar{out: file, what: what, total: total, begun: time.Now()}
	b.Add(0)
	return b
}

// Add counts bytes.
func (b *Bar) Add(n int64) {
	if b == nil {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	b.done += n
	now := time.Now()
	if now.Sub(b.last) < interval {
		return
	}
	b.last = now
	b.draw(now)
}

func (b *Bar) draw(now time.Time) {
	width, _, err := term.GetSize(int(b.out.Fd()))
	if err != nil || width <= 0 { // some terminals do not say
		width = 80
	}
	fmt.Fprintf(b.out, "\r%s\x1b[K", line(b.what, b.done, b.total, now.Sub(b.begun), width))
}

// Printf prints a line above the bar.
func (b *Bar) Printf(format string, args ...any) {
	if b == nil {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	fmt.Fprintf(b.out, "\r\x1b[K"+format+"\n", args...)
	b.draw(time.Now())
}

// End shows the end and leaves the line.
func (b *Bar) End() {
	if b == nil {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	b.draw(time.Now())
	fmt.Fprintln(b.out)
}

// Reader returns a reader that counts what is read.
func (b *Bar) Reader(r io.Reader) io.Reader {
	if b == nil {
		return r
	}
	return &counter{r, b}
}

type counter struct {
	io.Reader
	bar *Bar
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bar.Add(int64(n))
	return n, err
}

// line returns the bar as a line that is shorter than width.
func line(what string, done, total int64, elapsed time.Duration, width int) string {
	percent := int64(100)
	if total > 0 {
		percent = min(100, done*100/total)
	}
	rate := ""
	if seconds := elapsed.Seconds(); seconds >= 1 {
		rate = "  " + Size(int64(float64(done)/seconds)) + "/s"
	}
	numbers := fmt.Sprintf("%3d%%  %s of %s%s", percent, Size(done), Size(total), rate)
	room := width - len(what) - len(numbers) - 6
	if room < 10 {
		text := what + " " + numbers
		return text[:max(0, min(len(text), width-1))]
	}
	room = min(room, 40)
	full := int(percent) * room / 100
	return fmt.Sprintf("%s [%s%s] %s", what, strings.Repeat("=", full), strings.Repeat(" ", room-full), numbers)
}

// Size formats a number of bytes.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, names := float64(n)/unit, "KMGTPE"
	i := 0
	for ; value >= unit && i < len(names)-1; i++ {
		value /= unit
	}
	return fmt.Sprintf("%.1f %ciB", value, names[i])
}
