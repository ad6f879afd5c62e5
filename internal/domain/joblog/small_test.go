package joblog_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/db"
)

// count returns the result of a query that counts rows.
func (w *fixture) count(query string, args ...any) (n int) {
	w.T.Helper()
	w.WantNoError(w.DB.Read(context.Background(), func(q *db.Q) error { return q.QueryRow(query, args...).Scan(&n) }))
	return n
}

func TestSmall_LogsAreInTheDatabaseAndNeverSealed(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.run()
		w.add(job, 5, "two, ")
		w.add(job, 0, "one, ")
		w.add(job, 0, "one, ")
		w.wantContent(job, "one, two, ")
		w.end(job)
		servertest.WantEqual(t, "tasks", w.count(`SELECT count(*) FROM tasks WHERE kind = 'log-seal'`), 0)
		w.add(job, 10, "late")
		servertest.WantEqual(t, "tasks after a late chunk", w.count(`SELECT count(*) FROM tasks WHERE kind = 'log-seal'`), 0)
		w.wantContent(job, "one, two, late")
		servertest.WantEqual(t, "objects", w.keys(job), 0)
		w.WantNoError(w.logs.Delete(t.Context(), job))
		servertest.WantEqual(t, "rows of a deleted log", w.count(`SELECT count(*) FROM log_pieces WHERE job_id = $1`, job.ID), 0)
		w.add(job, 14, "after its deletion")
		w.wantContent(job, "")
		servertest.WantEqual(t, "rows of a deleted log", w.count(`SELECT count(*) FROM log_pieces WHERE job_id = $1`, job.ID), 0)
	})
}

// A log that grows beyond what is kept in the database is sealed as a whole.
func TestSmall_LogsThatGrowAreSealed(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.logs.SetSmall(10)
		job := w.run()
		w.add(job, 0, "small, ")
		w.add(job, 7, "no longer small")
		w.wantContent(job, "small, no longer small")
		w.end(job)
		w.runDue()
		if l := w.open(job); !l.Settled() {
			t.Error("the log is not sealed")
		}
		w.wantContent(job, "small, no longer small")
		servertest.WantEqual(t, "rows", w.count(`SELECT count(*) FROM log_pieces WHERE job_id = $1`, job.ID), 0)
		servertest.WantEqual(t, "objects", w.keys(job), 1)
	})
}

// An agent that sends a byte at a time, or bytes that overlap, does not fill the database with rows.
func TestSmall_BoundsTheRowsOfALog(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		const limit = 4 * 64
		job := w.run()
		text := strings.Repeat("0123456789", 70)
		for i := range text {
			w.WantNoError(w.logs.Append(t.Context(), job, joblog.Chunk{Sequence: int64(i + 1), Offset: int64(i)}, []byte(text[i:i+1])))
		}
		if rows := w.count(`SELECT count(*) FROM log_pieces WHERE job_id = $1`, job.ID); rows > 64 {
			t.Errorf("consecutive chunks have %d rows", rows)
		}
		for i := 0; i < len(text); i += 2 { // never the number of a chunk after which they are joined
			w.WantNoError(w.logs.Append(t.Context(), job, joblog.Chunk{Sequence: 1, Offset: int64(1000 + 2*i)}, []byte(text[i:i+1])))
		}
		if rows := w.count(`SELECT count(*) FROM log_pieces WHERE job_id = $1`, job.ID); rows > limit {
			t.Errorf("chunks with gaps have %d rows", rows)
		}
		w.wantContent(job, text)
	})
}

// Whether a chunk spills a log just before or just after its job ends, the log is sealed.
func TestSmall_LogsThatGrowWhileTheJobEndsAreSealed(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		w.logs.SetSmall(4)
		for range 10 {
			job := w.run()
			var sending sync.WaitGroup
			sending.Go(func() { w.add(job, 0, "not small") })
			w.end(job)
			sending.Wait()
			w.Clock.Advance(time.Minute)
			w.runDue()
			if l := w.open(job); !l.Settled() {
				t.Fatal("the log is not sealed")
			}
			w.wantContent(job, "not small")
		}
	})
}
