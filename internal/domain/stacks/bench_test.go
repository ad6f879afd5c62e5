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

// BenchmarkLongQueue lists 100 scheduled jobs, at the head and in the middle of the queue, reserves them and
// gets their tokens, over HTTP. It alternates between a queue of 1,000 jobs and one of a million, and reports
// the ratio.
func BenchmarkLongQueue(b *testing.B) {
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) {
			const rounds = 200
			few, many := newLongQueue(b, dbtest.New(b, engine), 1), newLongQueue(b, dbtest.New(b, engine), 1_000)
			fewMiddle, manyMiddle := few.middle(), many.middle()
			for b.Loop() {
				var short, long samples
				for range rounds {
					short = append(short, few.measure(fewMiddle))
					long = append(long, many.measure(manyMiddle))
				}
				for i, what := range []string{"list", "list-middle", "reserve", "tokens"} {
					one, other := short.fastest(i), long.fastest(i)
					b.ReportMetric(float64(one.Microseconds()), what+"-µs")
					b.ReportMetric(float64(other)/float64(one), what+"-many/few")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// middle returns the path of a list that starts with the job in the middle.
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

// callTimes are the durations of the calls of a stack.
type callTimes [4]time.Duration

// measure makes each call once, and releases what it has reserved.
func (q *longQueue) measure(middle string) (took callTimes) {
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

type samples []callTimes

// fastest returns the tenth percentile of durations: the time of a call on a quiet machine.
func (s samples) fastest(call int) time.Duration {
	sorted := make([]time.Duration, len(s))
	for i := range s {
		sorted[i] = s[i][call]
	}
	slices.Sort(sorted)
	return sorted[len(sorted)/10]
}

func jobUUIDs(ids []string) string {
	text, err := json.Marshal(fields{"job_uuids": ids})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}
