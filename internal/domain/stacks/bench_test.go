package stacks_test

import (
	"encoding/json"
	"slices"
	"stackyard/internal/platform/core"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

var engines = []db.Engine{db.SQLite, db.PostgreSQL}

// BenchmarkLongQueue lists 100 scheduled jobs, at the head of the queue and in its middle, reserves them
// and gets their tokens, over HTTP, where 1,000 jobs are scheduled and where a million are, in turns. It
// tells how the two compare.
func BenchmarkLongQueue(b *testing.B) {
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) {
			const samples = 200
			few, many := newLongQueue(b, dbtest.New(b, engine), 1), newLongQueue(b, dbtest.New(b, engine), 1_000)
			fewMiddle, manyMiddle := few.middle(), many.middle()
			for b.Loop() {
				var short, long walks
				for range samples {
					short = append(short, few.walk(fewMiddle))
					long = append(long, many.walk(manyMiddle))
				}
				for i, what := range []string{"list", "list-middle", "reserve", "tokens"} {
					one, other := short.quiet(i), long.quiet(i)
					b.ReportMetric(float64(one.Microseconds()), what+"-µs")
					b.ReportMetric(float64(other)/float64(one), what+"-many/few")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// middle returns the path of a list that begins with the job in the middle.
func (q *longQueue) middle() string {
	q.t.Helper()
	var at string
	var id string
	err := q.DB.Read(q.t.Context(), func(sql *db.Q) error {
		return sql.QueryRow(`
			SELECT CAST(scheduled_at AS TEXT), job_id FROM runnable ORDER BY scheduled_at, job_id
			LIMIT 1 OFFSET (SELECT COUNT(*) / 2 FROM runnable)`).Scan(&at, &id)
	})
	if err != nil {
		q.t.Fatal(err)
	}
	return listPath + "&after=" + core.Cursor{at, id}.String()
}

const listPath = "/scheduled-jobs?queue_key=default&limit=100"

// A walk is how long each call of a stack took.
type walk [4]time.Duration

// walk makes the calls once, and gives back what it has reserved.
func (q *longQueue) walk(middle string) (took walk) {
	q.t.Helper()
	var page jobPage
	took[0] = q.call("GET", listPath, "", &page)
	took[1] = q.call("GET", middle, "", nil)
	body := jobUUIDs(page.ids())
	took[2] = q.call("PUT", "/scheduled-jobs/batch-reserve", body, nil)
	took[3] = q.call("POST", "/job-acquisition-tokens", body, nil)
	q.exec(`UPDATE runnable SET reserved_by = NULL, reserved_until = NULL WHERE reserved_until IS NOT NULL`)
	q.exec(`DELETE FROM job_milestones`)
	return took
}

type walks []walk

// quiet returns how long a call takes in a quiet moment: the tenth part that is fastest is faster.
func (w walks) quiet(call int) time.Duration {
	taken := make([]time.Duration, len(w))
	for i := range w {
		taken[i] = w[i][call]
	}
	slices.Sort(taken)
	return taken[len(taken)/10]
}

func jobUUIDs(ids []string) string {
	text, err := json.Marshal(fields{"job_uuids": ids})
	if err != nil {
		panic(err) // texts can be written
	}
	return string(text)
}
