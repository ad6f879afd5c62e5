package joblog_test

import (
	"fmt"
	"html"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"stackyard/internal/domain/joblog"
)

// A watcher combines the updates of a window, as a page does.
type watcher struct {
	w       *fixture
	window  *joblog.Window
	settled string
	last    joblog.WindowUpdate
}

func (w *fixture) watch(job joblog.Job) *watcher {
	v := &watcher{w: w, window: w.logs.Window(job)}
	v.look()
	return v
}

func (v *watcher) look() joblog.WindowUpdate {
	v.w.T.Helper()
	update, err := v.window.Read(v.w.T.Context())
	v.w.WantNoError(err)
	if update.Reset {
		v.settled = ""
	}
	v.settled += update.Settled
	v.last = update
	return update
}

var tags = regexp.MustCompile(`<[^>]*>`)

// text returns what a person reads.
func (v *watcher) text() string {
	return html.UnescapeString(tags.ReplaceAllString(v.settled+v.last.Screen, ""))
}

func (v *watcher) want(text string) {
	v.w.T.Helper()
	if got := v.text(); got != text {
		v.w.T.Errorf("the window shows %.200q, want %.200q", got, text)
	}
}

func TestWindow_FollowsALogToItsEnd(t *testing.T) {
	eachStore(t, func(t *testing.T, w *fixture) {
		job := w.run()
		v := w.watch(job)
		v.want("")
		w.add(job, 0, "one\ntwo\rthr")
		v.look()
		v.want("one\nthr\n")
		w.add(job, 11, "ee\n")
		if update := v.look(); update.Reset || update.Truncated || update.Ended || update.Size != 14 {
			t.Errorf("the second look is %+v", update)
		}
		v.want("one\nthree\n")
		var lines strings.Builder
		for i := range 500 {
			fmt.Fprintf(&lines, "line %d\n", i)
		}
		w.add(job, 14, lines.String())
		v.look()
		v.want("one\nthree\n" + lines.String())
		w.end(job)
		w.add(job, 14+int64(lines.Len()), "the end")
		v.look()
		w.runDue()
		if update := v.look(); !update.Ended {
			t.Errorf("after the end the window sees %+v", update)
		}
		v.want("one\nthree\n" + lines.String() + "the end\n")
		if fresh := w.watch(job); fresh.text() != v.text() {
			t.Errorf("one who comes later sees %.200q", fresh.text())
		}
	})
}

func TestWindow_ShowsTheEndOfALongLog(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "first\n")
		v := w.watch(job)
		size := int64(6)
		for range 3 {
			some := strings.Repeat("some more\n", 80_000)
			w.add(job, size, some)
			size += int64(len(some))
		}
		w.add(job, size, "last\n")
		update := v.look()
		if !update.Reset || !update.Truncated || len(update.Settled) > 1<<20 {
			t.Errorf("reset %t, truncated %t, %d bytes", update.Reset, update.Truncated, len(update.Settled))
		}
		if got := v.text(); !strings.HasPrefix(got, "some more\n") || !strings.HasSuffix(got, "some more\nlast\n") {
			t.Errorf("the window shows %.20q … %q", got, got[max(0, len(got)-20):])
		}
	})
}

func TestWindow_ForgetsADeletedLog(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "one\n")
		v := w.watch(job)
		w.WantNoError(w.logs.Delete(t.Context(), job))
		if update := v.look(); !update.Reset {
			t.Errorf("the window sees %+v", update)
		}
		v.want("")
	})
}

func TestWindow_MarksHeadingsAndTimes(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "\x1b_bk;t=1700000000123\x07--- Build\nplain <b>\n\x1b[31m+++ Red\x1b[0m\n---not\n")
		const want = `<span class="line heading"><time datetime="2023-11-14T22:13:20.123Z">22:13:20</time>--- Build` + "\n</span>" +
			"<span class=\"line\">plain &lt;b&gt;\n</span>" +
			"<span class=\"line heading\"><span class=\"term-fg31\">+++ Red</span>\n</span>" +
			"<span class=\"line\">---not\n</span>"
		if got := w.watch(job).last.Screen; got != want {
			t.Errorf("the window shows %s, want %s", got, want)
		}
	})
}

// For any output in any chunks, a window shows no markup of the job and is not much larger than its limit.
func TestWindow_HoldsWhateverIsPrinted(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		random := rand.New(rand.NewPCG(1, 2))
		pieces := []string{"\n", "<script>", "\x1b[31m", "\x1b[2J", "\x1b[99A", "\x1b]8;;javascript:x\x07", "\xff", "\xe2\x82", "\r", "\x1b]1337;File=inline=1:PHNjcmlwdD4=\x07", strings.Repeat("x", 1000), "\x1b", "\x1b_bk;t=", "\"'&"}
		job := w.run()
		v := w.watch(job)
		var size int64
		for range 20 {
			var text strings.Builder
			for range random.IntN(2000) + 1 {
				text.WriteString(pieces[random.IntN(len(pieces))])
			}
			w.add(job, size, text.String()[:min(text.Len(), 1<<20)])
			size += int64(min(text.Len(), 1<<20))
			update := v.look()
			if shown := update.Settled + update.Screen; strings.Contains(shown, "<script") || strings.Contains(shown, `href="javascript`) || len(shown) > 16<<20 {
				t.Fatalf("%d bytes are shown, perhaps with markup", len(shown))
			}
		}
	})
}
