package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

var engines = []db.Engine{db.SQLite, db.PostgreSQL}

// commits notes when jobs become runnable: when the transaction is committed.
func (w *world) commits() func() time.Time {
	var last atomic.Int64
	w.OnAnnounce(func(topics []string) {
		if slices.ContainsFunc(topics, func(t string) bool { return strings.HasPrefix(t, "queue:") }) {
			last.Store(time.Now().UnixNano())
		}
	})
	return func() time.Time { return time.Unix(0, last.Load()) }
}

// BenchmarkWait lets 1,000 agents wait. It reports how long it takes from when a job is runnable until it
// is assigned to one of them: for builds of one job, and for builds of a job for each agent.
func BenchmarkWait(b *testing.B) {
	const agents = 1_000
	for _, engine := range engines {
		for _, jobs := range []int{1, agents} {
			b.Run(fmt.Sprintf("%s/%d", engine, jobs), func(b *testing.B) {
				w := newWorld(b, dbtest.New(b, engine))
				committed := w.commits()
				ctx, cancel := context.WithCancel(b.Context())
				got := make(chan time.Time, agents)
				var all sync.WaitGroup
				for i := range agents {
					all.Go(func() {
						for ctx.Err() == nil { // each time as another agent, since no agent runs the jobs
							a := w.agent(core.NewID(), "os=linux", fmt.Sprint("host=", i))
							if job, err := w.Wait(ctx, a); err != nil {
								b.Error(err)
							} else if job != "" {
								got <- time.Now()
							}
						}
					})
				}
				var taken []time.Duration
				for b.Loop() {
					w.waiting(agents)
					w.build(fmt.Sprintf("{command: work, parallelism: %d}", jobs))
					for range jobs {
						taken = append(taken, (<-got).Sub(committed()))
					}
				}
				cancel()
				all.Wait()
				slices.Sort(taken)
				b.ReportMetric(float64(taken[len(taken)/2].Microseconds())/1000, "ms-runnable-to-assigned-p50")
				b.ReportMetric(float64(taken[len(taken)*99/100].Microseconds())/1000, "ms-runnable-to-assigned-p99")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkReplicas reports how long it takes from when a job is runnable until it is assigned to an agent
// that waits at another replica.
func BenchmarkReplicas(b *testing.B) {
	url := dbtest.URL(b, db.PostgreSQL)
	here, there := newWorld(b, dbtest.Open(b, url)), replica(b, dbtest.Open(b, url))
	here.run(here.bus.Run)
	there.run(there.bus.Run)
	committed := here.commits()
	var taken []time.Duration
	for b.Loop() {
		waiting := there.wait(there.agent(core.NewID()))
		there.waiting(1)
		there.settle()
		here.build("{command: work}")
		waiting.get()
		taken = append(taken, time.Since(committed()))
	}
	slices.Sort(taken)
	b.ReportMetric(float64(taken[len(taken)/2].Microseconds())/1000, "ms-runnable-to-assigned-p50")
	b.ReportMetric(float64(taken[len(taken)*99/100].Microseconds())/1000, "ms-runnable-to-assigned-p99")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkClaims hands out jobs of many builds to agents that come back at once, and compares with
// nothing but the bare change of the same rows, one transaction for each job.
func BenchmarkClaims(b *testing.B) {
	const agents, builds, jobs = 64, 50, 20
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) {
			w := newWorld(b, dbtest.New(b, engine))
			var handing, bare time.Duration
			for b.Loop() {
				for range builds {
					w.build(fmt.Sprintf("{command: work, parallelism: %d}", jobs))
				}
				began := time.Now()
				ids := w.handOut(b, agents, builds*jobs)
				handing += time.Since(began)
				w.exec(`UPDATE jobs SET state = 'scheduled', agent_id = NULL`)
				began = time.Now()
				w.assignBare(b, agents, ids)
				bare += time.Since(began)
				w.exec(`DELETE FROM builds`)
			}
			all := float64(b.N * builds * jobs)
			b.ReportMetric(all/handing.Seconds(), "jobs/s")
			b.ReportMetric(all/bare.Seconds(), "bare-updates/s")
			b.ReportMetric(bare.Seconds()/handing.Seconds(), "rate/bare-updates")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// handOut has agents take jobs until there are no more, and returns them.
func (w *world) handOut(b *testing.B, agents, jobs int) (ids []string) {
	got := make(chan string, jobs)
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	for range agents {
		all.Go(func() {
			for ctx.Err() == nil {
				job, err := w.Wait(ctx, w.agent(core.NewID()))
				if err != nil {
					b.Error(err)
				}
				if job != "" {
					got <- job
				}
			}
		})
	}
	for range jobs {
		ids = append(ids, <-got)
	}
	cancel()
	all.Wait()
	return ids
}

func (w *world) assignBare(b *testing.B, agents int, ids []string) {
	next := make(chan string, len(ids))
	for _, id := range ids {
		next <- id
	}
	close(next)
	var all sync.WaitGroup
	for range agents {
		all.Go(func() {
			for id := range next {
				err := w.Write(b.Context(), func(q *db.Q) error {
					_, err := q.Exec(`UPDATE jobs SET state = 'assigned', agent_id = $2 WHERE id = $1`, id, "agent")
					return err
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkLongQueue hands out jobs from a queue in which 1,000 others wait and from one with a million,
// with the same rules and with other ones, and tells how the two compare.
func BenchmarkLongQueue(b *testing.B) {
	const short, long, samples = 1_000, 1_000_000, 400
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b, dbtest.New(b, engine))
				w.build("{command: work, priority: 1}")
				w.wait(w.agent("first")).get()
				w.fill(short/2, "")
				w.fill(short/2, "other")
				few := w.quiet(samples)
				w.fillFrom(short/2, long/2-short/2, "")
				w.fillFrom(short/2, long/2-short/2, "other")
				if engine == db.PostgreSQL {
					w.exec(`ANALYZE`)
				}
				many := w.quiet(samples)
				b.ReportMetric(float64(few.Microseconds()), "µs/job-of-1000")
				b.ReportMetric(float64(many.Microseconds()), "µs/job-of-1000000")
				b.ReportMetric(float64(many)/float64(few), "time/of-1000")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// quiet returns how long it takes an agent to get a job that is there, in a quiet moment: the tenth part
// that is fastest is faster. After many rows were added a database has other things to do for a while.
func (w *world) quiet(samples int) time.Duration {
	var taken []time.Duration
	for range samples {
		w.build("{command: work, priority: 1}")
		began := time.Now()
		if _, err := w.Wait(w.t.Context(), w.agent(core.NewID())); err != nil {
			w.t.Fatal(err)
		}
		taken = append(taken, time.Since(began))
	}
	slices.Sort(taken)
	return taken[len(taken)/10]
}
