package joblog_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/joblog"
)

const acme = "/v2/organizations/acme"

// paths returns the two forms of the path of a job's log.
func (w *fixture) paths(job joblog.Job) []string {
	return []string{
		fmt.Sprintf("%s/pipelines/hello/builds/1/jobs/%s/log", acme, job.ID),
		fmt.Sprintf("%s/jobs/%s/log", acme, job.ID),
	}
}

// eachPath runs a test with a job that prints a text, on each engine, for each form of the log's path, while
// the job runs and after its log was sealed.
func eachPath(t *testing.T, printed string, fn func(t *testing.T, w *fixture, path string)) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		if printed != "" {
			w.add(job, 0, printed)
		}
		for _, path := range w.paths(job) {
			t.Run("running", func(t *testing.T) { fn(t, w, path) })
		}
		w.end(job)
		w.runDue()
		for _, path := range w.paths(job) {
			t.Run("sealed", func(t *testing.T) { fn(t, w, path) })
		}
	})
}

const colored = "\x1b_bk;t=1700000000123\x07~~~ Preparing\r\n\x1b_bk;t=1700000001000\x07\x1b[31mred\x1b[0m \xff & <b>\r\n+++ no time of its own\r\n"

func TestGetLog_AsJSON(t *testing.T) {
	eachPath(t, colored, func(t *testing.T, w *fixture, path string) {
		for _, accept := range []string{"", "application/json", "*/*"} {
			got := w.As(t, servertest.Ada).With("Accept", accept).Get(path).Want(http.StatusOK)
			if got.Header.Get("Content-Type") != "application/json; charset=utf-8" {
				t.Errorf("it is %s", got.Header.Get("Content-Type"))
			}
			var log struct {
				URL, Content string
				Size         int64
				HeaderTimes  []int64 `json:"header_times"`
			}
			got.JSON(&log)
			if log.Content != strings.ToValidUTF8(colored, "\ufffd") || log.Size != int64(len(colored)) {
				t.Errorf("%d bytes: %q", log.Size, log.Content)
			}
			if want := w.URL + w.paths(joblog.Job{ID: jobID(path)})[0]; log.URL != want {
				t.Errorf("url is %s, want %s", log.URL, want)
			}
			if fmt.Sprint(log.HeaderTimes) != "[1700000000123000000 1700000001000000000]" {
				t.Errorf("header_times are %v", log.HeaderTimes)
			}
		}
	})
}

// jobID returns the id in the path of a log.
func jobID(path string) string {
	_, rest, _ := strings.Cut(path, "/jobs/")
	return strings.TrimSuffix(rest, "/log")
}

func TestGetLog_AsText(t *testing.T) {
	eachPath(t, colored, func(t *testing.T, w *fixture, path string) {
		for _, got := range []*servertest.Response{
			w.As(t, servertest.Ada).With("Accept", "text/plain").Get(path),
			w.As(t, servertest.Ada).Get(path + ".txt"),
		} {
			got.Want(http.StatusOK)
			if string(got.Body) != strings.ToValidUTF8(colored, "\ufffd") || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%v %q", got.Header, got.Body)
			}
		}
	})
}

func TestGetLog_AsHTML(t *testing.T) {
	eachPath(t, colored, func(t *testing.T, w *fixture, path string) {
		const want = `<div class="term-container"><time datetime="2023-11-14T22:13:20.123Z">2023-11-14T22:13:20.123Z</time>~~~ Preparing` + "\n" +
			`<time datetime="2023-11-14T22:13:21Z">2023-11-14T22:13:21Z</time><span class="term-fg31">red</span> ` + "\ufffd" + ` &amp; &lt;b&gt;` + "\n+++ no time of its own</div>\n"
		for _, got := range []*servertest.Response{
			w.As(t, servertest.Ada).With("Accept", "text/html,*/*").Get(path),
			w.As(t, servertest.Ada).Get(path + ".html"),
		} {
			got.Want(http.StatusOK)
			if string(got.Body) != want || got.Header.Get("Content-Type") != "text/html; charset=utf-8" || got.Header.Get("Content-Security-Policy") == "" {
				t.Errorf("%v\n%s\nwant\n%s", got.Header, got.Body, want)
			}
		}
	})
}

func TestHeadLog_ReportsTheSize(t *testing.T) {
	eachPath(t, colored, func(t *testing.T, w *fixture, path string) {
		for _, path := range []string{path, path + ".txt"} {
			got := w.As(t, servertest.Ada).Do("HEAD", path, nil).Want(http.StatusOK)
			if got.Header.Get("Content-Length") != strconv.Itoa(len(colored)) || got.Header.Get("Accept-Ranges") != "bytes" || len(got.Body) > 0 {
				t.Errorf("%v %q", got.Header, got.Body)
			}
		}
	})
}

func TestGetLog_OfItsLastBytes(t *testing.T) {
	const printed = "héllo \xff\xfe wörld"
	eachPath(t, printed, func(t *testing.T, w *fixture, path string) {
		text := w.As(t, servertest.Ada).With("Accept", "text/plain")
		size := len(printed)
		for n, from := range map[string]int{"1": size - 1, "3": size - 3, "16": size - 16, strconv.Itoa(size): 0, "1000": 0, "99999999999999999999999": 0, "007": size - 7} {
			got := text.With("Range", "bytes=-"+n).Get(path).Want(http.StatusPartialContent)
			if string(got.Body) != printed[from:] {
				t.Errorf("the last %s bytes are %q, want %q", n, got.Body, printed[from:])
			}
			if want := fmt.Sprintf("bytes %d-%d/%d", from, size-1, size); got.Header.Get("Content-Range") != want {
				t.Errorf("Content-Range is %q, want %q", got.Header.Get("Content-Range"), want)
			}
			if got.Header.Get("Content-Length") != strconv.Itoa(size-from) || got.Header.Get("Accept-Ranges") != "bytes" {
				t.Errorf("%v", got.Header)
			}
		}
		w.As(t, servertest.Ada).With("Range", "bytes=-4").Get(path + ".txt").Want(http.StatusPartialContent)
	})
}

func TestGetLog_RefusesOtherRanges(t *testing.T) {
	const sentence = "Range must be bytes=-N, for the last N bytes of the log, where N is larger than 0"
	for _, printed := range []string{"text", ""} {
		eachPath(t, printed, func(t *testing.T, w *fixture, path string) {
			ada := w.As(t, servertest.Ada)
			for _, header := range []string{
				"bytes=0-3", "bytes=1-", "bytes=-1,-2", "bytes=0-0,-1", "bytes=-0", "bytes=-000", "bytes=-", "bytes=", "bytes", "-5", "lines=-5", "bytes=--5", "bytes=-+5", "bytes=-5a", "bytes=- 5",
			} {
				ada.With("Accept", "text/plain").With("Range", header).Get(path).WantMessage(http.StatusBadRequest, sentence)
				ada.With("Range", header).Get(path+".txt").WantMessage(http.StatusBadRequest, sentence)
			}
			for _, accept := range []string{"", "application/json", "text/html", "*/*"} {
				ada.With("Accept", accept).With("Range", "bytes=-5").Get(path).WantMessage(http.StatusBadRequest, "A Range needs the header Accept: text/plain")
			}
			ada.With("Range", "bytes=-5").Get(path + ".html").Want(http.StatusBadRequest)
		})
	}
}

func TestGetLog_OfNothing(t *testing.T) {
	eachPath(t, "", func(t *testing.T, w *fixture, path string) {
		ada := w.As(t, servertest.Ada)
		got := ada.Get(path).Want(http.StatusOK)
		if got.String("content") != "" || got.String("size") != "0" || got.Len("header_times") != 0 {
			t.Errorf("%s", got.Body)
		}
		if got := ada.Get(path + ".txt").Want(http.StatusOK); len(got.Body) > 0 {
			t.Errorf("%q", got.Body)
		}
		if got := ada.Do("HEAD", path, nil).Want(http.StatusOK); got.Header.Get("Content-Length") != "0" {
			t.Errorf("%v", got.Header)
		}
		got = ada.With("Accept", "text/plain").With("Range", "bytes=-5").Get(path).WantMessage(http.StatusRequestedRangeNotSatisfiable, "The log is empty, so it has no last bytes")
		if got.Header.Get("Content-Range") != "bytes */0" {
			t.Errorf("%v", got.Header)
		}
	})
}

func TestDeleteLog(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		ada := w.As(t, servertest.Ada)
		job := w.run()
		for i, path := range w.paths(job) {
			w.add(job, int64(i)*11, "secret")
			if got := ada.Delete(path).Want(http.StatusNoContent); len(got.Body) > 0 {
				t.Errorf("%s", got.Body)
			}
			if got := ada.Get(path).Want(http.StatusOK); got.String("content") != "" || got.String("size") != "0" {
				t.Errorf("%s", got.Body)
			}
			w.add(job, int64(i)*11+6, "later")
			if got := ada.Get(path).Want(http.StatusOK); got.String("content") != "later" || got.String("size") != "5" {
				t.Errorf("%s", got.Body)
			}
			ada.Do("HEAD", path, nil).Want(http.StatusOK)
		}
		w.end(job)
		w.runDue()
		ada.Get(w.paths(job)[0]).Want(http.StatusOK)
		ada.Delete(w.paths(job)[0]).Want(http.StatusNoContent)
	})
}

func TestLogs_OfWhatHasNone(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		ada := w.As(t, servertest.Ada)
		ada.Patch(acme+"/pipelines/hello", map[string]any{"configuration": "steps: [{block: go}]"}).Want(http.StatusOK)
		build := ada.Post(acme+"/pipelines/hello/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		for _, path := range w.paths(joblog.Job{ID: build.String("jobs.0.id")}) {
			ada.Get(path).WantMessage(http.StatusNotFound, "No job found: only command jobs have a log")
			ada.Do("HEAD", path, nil).Want(http.StatusNotFound)
		}
		for _, id := range []string{"0190c0de-0000-7000-8000-00000000dead", "nonsense"} {
			ada.Get(acme+"/jobs/"+id+"/log").WantMessage(http.StatusNotFound, "No job found")
			ada.Do("HEAD", acme+"/jobs/"+id+"/log", nil).Want(http.StatusNotFound)
			ada.Delete(acme + "/jobs/" + id + "/log").Want(http.StatusNotFound)
		}
	})
}

// At least one client sends the id of a build instead of its number.
func TestGetLog_OfABuildNamedByItsID(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, "text")
		got := w.As(t, servertest.Ada).Get(acme + "/pipelines/hello/builds/" + job.BuildID + "/jobs/" + job.ID + "/log").Want(http.StatusOK)
		if got.String("content") != "text" {
			t.Errorf("%s", got.Body)
		}
	})
}

func TestHeaderTimes_OfTheAgentWinOverThoseInTheLog(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 0, colored)
		w.WantNoError(w.logs.SetHeaderTimes(t.Context(), job, map[int]time.Time{1: time.Unix(2, 0)}))
		w.WantNoError(w.logs.SetHeaderTimes(t.Context(), job, map[int]time.Time{0: time.Unix(1, 5)}))
		w.end(job)
		w.runDue()
		got := w.As(t, servertest.Ada).Get(w.paths(job)[0]).Want(http.StatusOK)
		if fmt.Sprint(got.At("header_times")) != "[1.000000005e+09 2e+09]" {
			t.Errorf("%v", got.At("header_times"))
		}
		if err := w.logs.SetHeaderTimes(t.Context(), job, map[int]time.Time{1 << 40: time.Now()}); err == nil {
			t.Error("any number of a section is taken")
		}
	})
}

func TestRetention_RemovesTheLog(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.Apply(`organizations: [{slug: acme, limits: {build_retention_days: 30}}]`)
		job := w.run()
		w.add(job, 0, "text")
		w.end(job)
		w.runDue()
		for _, d := range []time.Duration{31 * 24 * time.Hour, time.Minute} {
			w.Clock.Advance(d)
			w.WantNoError(w.RunDue(t.Context()))
		}
		if n := w.keys(job); n != 0 {
			t.Errorf("%d objects are left", n)
		}
		if err := w.logs.Append(t.Context(), job, joblog.Chunk{}, []byte("late")); err == nil || w.keys(job) != 0 {
			t.Errorf("a chunk of a job that is gone is kept: %v", err)
		}
	})
}

// Readers get what was printed, or learn which part can no longer be read.
func TestGetLog_WhoseBytesAreDamagedOrMissing(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		random := rand.New(rand.NewPCG(1, 2))
		var printed strings.Builder
		for i := 0; printed.Len() < 600<<10; i++ { // three frames
			fmt.Fprintf(&printed, "line %d %x\n", i, random.Uint64())
		}
		w.add(job, 0, printed.String()[:300<<10])
		w.add(job, 300<<10, printed.String()[300<<10:])
		w.end(job)
		w.runDue()
		var key, archive string
		for o, err := range w.blobs.List(t.Context(), job.Prefix()) {
			w.WantNoError(err)
			key = o.Key
		}
		from, err := w.blobs.Open(t.Context(), key, 0, -1)
		w.WantNoError(err)
		all, err := io.ReadAll(from)
		w.WantNoError(err)
		from.Close()
		archive = string(all)
		put := func(content string) {
			w.WantNoError(w.blobs.Put(t.Context(), key, strings.NewReader(content), int64(len(content))))
		}
		ada := w.As(t, servertest.Ada)
		path := w.paths(job)[0]
		wantGone := func(what string) {
			t.Helper()
			for _, end := range []string{"", ".txt", ".html", "/stream"} {
				ada.Get(path+end).WantMessage(http.StatusGone, "The stored bytes of this log are "+what)
			}
			ada.Do(http.MethodHead, path, nil).Want(http.StatusGone)
			if update := w.watch(job).last; !strings.Contains(update.Settled, what) {
				t.Errorf("a page shows %q", update.Settled)
			}
		}
		w.WantNoError(w.blobs.Delete(t.Context(), key))
		wantGone("missing")
		put(archive[:len(archive)-1])
		wantGone("damaged: they do not match their checksum")
		put(archive[:len(archive)-1] + "X")
		wantGone("damaged: they do not match their checksum")

		middle := len(archive) / 2 // in the second frame
		put(archive[:middle] + "XXXX" + archive[middle+4:])
		got := string(ada.Get(path + ".txt").Want(http.StatusOK).Body)
		const frame = 256 << 10
		if len(got) != printed.Len() || got[:frame] != printed.String()[:frame] || got[2*frame:] != printed.String()[2*frame:] {
			t.Errorf("%d bytes of %d came, or others than were printed", len(got), printed.Len())
		}
		if between := strings.TrimLeft(got[frame:2*frame], "?"); between != "\n[damaged: 262144 bytes of this log do not match their checksum]\n" {
			t.Errorf("in the place of what is damaged is %.200q", between)
		}
		put(archive)
		if got := string(ada.Get(path + ".txt").Want(http.StatusOK).Body); got != printed.String() {
			t.Error("the log is not what it was")
		}
	})
}
