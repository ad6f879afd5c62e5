package jobapi_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
)

func gzipped(content string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(content))
	w.Close()
	return b.String()
}

// chunk sends a chunk of the log.
func (w *runningBuild) chunk(sequence, offset int, content string) *response {
	w.T.Helper()
	path := w.Path(fmt.Sprintf("/chunks?sequence=%d&offset=%d&size=%d", sequence, offset, len(content)))
	return w.With("Content-Type", "text/plain").With("Content-Encoding", "gzip").Post(path, gzipped(content))
}

// logs returns a log service beside the server's own, and the log of the job.
func (w *runningBuild) logs() (*joblog.Service, joblog.Job) {
	log := slog.New(slog.DiscardHandler)
	service := joblog.New(w.DB, w.Blobs, bus.New(w.DB, log), w.Builds().Reader, core.PublicURL(w.URL), w.Clock.Now, log)
	return service, joblog.Job{OrganizationID: w.OrgID, PipelineID: servertest.AcmePipelineID, BuildID: w.Build, ID: w.Job.ID}
}

// log returns the content of the job's log.
func (w *runningBuild) log() string {
	w.T.Helper()
	service, job := w.logs()
	l, err := service.Open(w.T.Context(), job)
	w.WantNoError(err)
	var content bytes.Buffer
	w.WantNoError(l.Copy(w.T.Context(), &content, 0, l.Size))
	return content.String()
}

func TestChunks_ComeInAnyOrderAndTwice(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.chunk(3, 8, "three\r\n").Want(http.StatusOK)
		w.chunk(1, 0, "one ").Want(http.StatusOK)
		servertest.WantEqual(t, "log", w.log(), "one ")
		w.chunk(2, 4, "two ").Want(http.StatusOK)
		w.chunk(2, 4, "two ").Want(http.StatusOK)
		w.chunk(4, 15, "").Want(http.StatusOK)
		servertest.WantEqual(t, "log", w.log(), "one two three\r\n")
		w.With("Content-Type", "text/plain").Post(w.Path("/chunks?sequence=5&offset=15&size=5"), "plain").Want(http.StatusOK)
		servertest.WantEqual(t, "log", w.log(), "one two three\r\nplain")
	})
}

func TestChunks_ReportProblems(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		packed := w.With("Content-Encoding", "gzip")
		for query, body := range map[string]string{
			"offset=0&size=1":             gzipped("x"),
			"sequence=1&offset=-1&size=1": gzipped("x"),
			"sequence=1&offset=0&size=x":  gzipped("x"),
			"sequence=1&offset=0&size=2":  gzipped("x"),
			"sequence=1&offset=0&size=10": gzipped(strings.Repeat("x", 50<<20)), // which would not fit
			"sequence=1&offset=0&size=5":  "plain",
		} {
			packed.Post(w.Path("/chunks?"+query), body).Want(http.StatusBadRequest)
		}
		w.With("Content-Encoding", "br").Post(w.Path("/chunks?sequence=1&offset=0&size=1"), "x").Want(http.StatusBadRequest)
		packed.Post(w.Path("/chunks?sequence=1&offset=0&size=999999999"), gzipped("x")).Want(http.StatusRequestEntityTooLarge)
		servertest.WantEqual(t, "log", w.log(), "")
	})
}

func TestChunks_MayComeALittleLate(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.chunk(1, 0, "one ").Want(http.StatusOK)
		w.Finish("0")
		w.Clock.Advance(5 * time.Minute)
		w.chunk(2, 4, "two").Want(http.StatusOK)
		w.Post(w.Path("/header_times"), fields{"header_times": fields{}}).Want(http.StatusOK)
		servertest.WantEqual(t, "log", w.log(), "one two")
		w.Clock.Advance(time.Second)
		w.chunk(3, 7, "three").Want(http.StatusUnauthorized)
		w.Post(w.Path("/header_times"), fields{"header_times": fields{}}).Want(http.StatusUnauthorized)
		servertest.WantEqual(t, "log", w.log(), "one two")
	})
}

func TestChunks_AreKeptAfterTheLogWasDeleted(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.chunk(1, 0, "one ").Want(http.StatusOK)
		service, job := w.logs()
		w.WantNoError(service.Delete(t.Context(), job))
		servertest.WantEqual(t, "objects", w.objects(), 0)
		w.chunk(1, 0, "one ").Want(http.StatusOK) // again
		w.chunk(2, 4, "two").Want(http.StatusOK)
		servertest.WantEqual(t, "log", w.log(), "two")
	})
}

func TestHeaderTimes_AreNoted(t *testing.T) {
	whileRunning(t, nil, func(t *testing.T, w *runningBuild) {
		w.Post(w.Path("/header_times"), fields{"header_times": fields{"0": "2026-01-02T03:04:05.678Z", "2": "2026-01-02T03:04:07Z"}}).Want(http.StatusOK)
		service, job := w.logs()
		l, err := service.Open(t.Context(), job)
		w.WantNoError(err)
		servertest.WantEqual(t, "times", fmt.Sprint(l.HeaderTimes), "[1767323045678000000 0 1767323047000000000]")
		for _, times := range []fields{{"x": "2026-01-02T03:04:05Z"}, {"0": "yesterday"}, {"-1": "2026-01-02T03:04:05Z"}, {"99999999": "2026-01-02T03:04:05Z"}} {
			w.Post(w.Path("/header_times"), fields{"header_times": times}).Want(http.StatusUnprocessableEntity)
		}
		w.Post(w.Path("/header_times"), fields{"header_times": "x"}).Want(http.StatusBadRequest)
	})
}
