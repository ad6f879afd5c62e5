package joblog_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stackyard/internal/domain/joblog"
)

// A check makes dozens of durable writes, on two engines with two kinds of blob stores each.
func init() { flag.Set("rapid.checks", "20") }

const propertyHead, propertyTail = 4000, 1000

// reference is the simplest implementation of a log: all bytes in memory, and whether each was sent.
type reference struct {
	t     *rapid.T
	w     *fixture
	job   joblog.Job
	bytes []byte // what the job prints
	sent  []bool
	cut   int // offset up to which the log was deleted while the job ran
	ended bool
	gone  bool // deleted after the job ended
}

// newline returns the line end before a marker, if there is text before it.
func newline(from int) string {
	if from == 0 {
		return ""
	}
	return "\r\n"
}

// want returns the expected content.
func (r *reference) want() string {
	if r.gone {
		return ""
	}
	end := r.sentTo() - r.cut
	kept := func(i int) bool { return r.sent[r.cut+i] && (i < propertyHead || i >= end-propertyTail) }
	var b strings.Builder
	for i := 0; i < end; {
		if kept(i) && (r.ended || i < propertyHead) {
			b.WriteByte(r.bytes[r.cut+i])
			i++
			continue
		}
		if !r.ended {
			break
		}
		from := i
		for i < end && !kept(i) {
			i++
		}
		fmt.Fprintf(&b, "%s[%s bytes of the log are missing here]\r\n", newline(from), groupDigits(i-from))
	}
	return b.String()
}

// sentTo returns the end of the bytes sent.
func (r *reference) sentTo() int {
	end := r.cut
	for i := end; i < len(r.sent); i++ {
		if r.sent[i] {
			end = i + 1
		}
	}
	return end
}

func groupDigits(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// send sends a chunk, and some of those around it.
func (r *reference) send(t *rapid.T) {
	from := rapid.IntRange(0, len(r.bytes)-1).Draw(t, "from")
	if rapid.Bool().Draw(t, "next") { // most agents send the next bytes
		for from = 0; from < len(r.sent)-1 && r.sent[from]; from++ {
		}
	}
	to := min(len(r.bytes), from+rapid.IntRange(1, 1500).Draw(t, "size"))
	r.w.add(r.job, int64(from), string(r.bytes[from:to]))
	for i := from; i < to; i++ {
		r.sent[i] = true
	}
}

func (r *reference) end(*rapid.T) {
	if !r.ended {
		r.w.end(r.job)
		r.ended = true
	}
}

func (r *reference) seal(*rapid.T) {
	r.w.Clock.Advance(time.Minute)
	r.w.runDue()
}

func (r *reference) sealNow(t *rapid.T) {
	if err := r.w.logs.Seal(t.Context(), r.job); err != nil {
		t.Fatal(err)
	}
}

func (r *reference) delete(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		return
	}
	if err := r.w.logs.Delete(t.Context(), r.job); err != nil {
		t.Fatal(err)
	}
	if r.ended {
		r.gone = true
	} else {
		r.cut = r.sentTo()
	}
}

// check compares all of the content, and a range of it.
func (r *reference) check(t *rapid.T) {
	l, want := r.w.open(r.job), r.want()
	if got := r.w.part(l, 0, l.Size); got != want || l.Size != int64(len(want)) {
		t.Fatalf("the log is %q\nwant %q", got, want)
	}
	from := rapid.IntRange(0, len(want)).Draw(t, "read from")
	to := rapid.IntRange(from, len(want)).Draw(t, "read to")
	if got := r.w.part(l, int64(from), int64(to)); got != want[from:to] {
		t.Fatalf("from %d to %d it is %q, want %q", from, to, got, want[from:to])
	}
	if r.gone && r.w.keys(r.job) > 0 {
		t.Fatal("bytes of a deleted log are kept")
	}
}

// For any order and repetition of chunks, end of the job, sealing and deletion, the log equals a byte string in
// memory.
func TestLog_EqualsAByteString(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		w.logs.SetLimits(propertyHead, propertyTail)
		rapid.Check(t, func(rt *rapid.T) {
			w.logs.SetSmall(rapid.SampledFrom([]int64{0, 700, propertyHead}).Draw(rt, "small"))
			r := &reference{t: rt, w: w, job: w.run(), bytes: make([]byte, 8000), sent: make([]bool, 8000)}
			random := rand.NewChaCha8([32]byte{})
			random.Read(r.bytes)
			rt.Repeat(map[string]func(*rapid.T){
				"send": r.send, "send again": r.send, "send more": r.send,
				"end": r.end, "seal": r.seal, "seal now": r.sealNow, "delete": r.delete,
				"": r.check,
			})
		})
	})
}
