package joblog_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/joblog"
)

// print has a job print some bytes, ends it, and has its log sealed.
func (w *fixture) print(bytes int) joblog.Job {
	w.T.Helper()
	job := w.run()
	w.add(job, 0, strings.Repeat("x", bytes))
	w.end(job)
	w.runDue()
	return job
}

// wantLogs checks how many logs of jobs are left, oldest first.
func (w *fixture) wantLogs(want ...bool) func(jobs ...joblog.Job) {
	w.T.Helper()
	return func(jobs ...joblog.Job) {
		w.T.Helper()
		for i, job := range jobs {
			if left := w.open(job).Size > 0; left != want[i] {
				w.T.Errorf("the log %d is there: %t, want %t", i, left, want[i])
			}
		}
	}
}

// wantUsage checks the number of logs in the blob store, and that they have bytes if there are any.
func (w *fixture) wantUsage(count float64) {
	w.T.Helper()
	got := w.As(w.T, servertest.Ada).Get("/v2/organizations/acme/usage").Want(http.StatusOK)
	if bytes := got.At("logs.bytes").(float64); got.At("logs.count") != count || (bytes > 0) != (count > 0) {
		w.T.Errorf("usage is %s, want %v logs", got.Body, count)
	}
}

func (w *fixture) keepLogs(what string) {
	w.Apply(fmt.Sprintf("organizations: [{slug: acme, limits: {%s}}]", what))
}

func TestRetention_RemovesOldLogsAndKeepsTheirBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		old, small := w.print(100_000), w.print(100)
		w.Clock.Advance(20 * 24 * time.Hour)
		recent := w.print(100_000)
		w.wantUsage(2)
		w.keepLogs("log_retention_days: 14")
		w.Clock.Advance(time.Hour)
		w.runDue()
		w.wantLogs(false, false, true)(old, small, recent)
		w.wantUsage(1)
		w.As(t, servertest.Ada).Get("/v2/organizations/acme/jobs/" + old.ID).Want(http.StatusOK)
		w.Clock.Advance(14 * 24 * time.Hour)
		w.runDue()
		w.wantLogs(false)(recent)
		w.wantUsage(0)
	})
}

func TestRetention_RemovesTheOldestLogsOverTheLimit(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		var jobs []joblog.Job
		for range 3 {
			jobs = append(jobs, w.print(100_000))
			w.Clock.Advance(time.Hour)
		}
		w.wantUsage(3)
		w.Clock.Advance(time.Hour)
		w.runDue()
		w.wantLogs(true, true, true)(jobs...)
		bytes := w.As(t, servertest.Ada).Get("/v2/organizations/acme/usage").At("logs.bytes").(float64)
		w.keepLogs(fmt.Sprintf("log_bytes: %d", int(bytes)-1))
		w.Clock.Advance(time.Hour)
		w.runDue()
		w.wantLogs(false, true, true)(jobs...)
		w.wantUsage(2)
		w.WantNoError(w.logs.Delete(t.Context(), jobs[1]))
		w.WantNoError(w.logs.Delete(t.Context(), jobs[1]))
		w.wantUsage(1)
		// The blobs of removed logs are removed by a task of the server.
		w.As(t, servertest.Ada).Delete("/v2/organizations/acme/pipelines/hello").Want(http.StatusNoContent)
		w.WantNoError(w.RunDue(t.Context()))
		w.Clock.Advance(time.Hour)
		w.WantNoError(w.RunDue(t.Context()))
		w.wantUsage(0)
		for o, err := range w.blobs.List(t.Context(), jobs[0].OrganizationID) {
			t.Errorf("left: %v %v", o, err)
		}
	})
}
