package agents_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// BenchmarkReaction measures the time from the moment a job becomes runnable until its agent has the response
// to its accept, over HTTP, with 1,000 waiting agents: for jobs that are created one after another, and for as
// many jobs at once as there are agents.
func BenchmarkReaction(b *testing.B) {
	for _, engine := range engines {
		b.Run(string(engine)+"/alone", func(b *testing.B) { benchmarkReaction(b, engine, 1, 200) })
		b.Run(string(engine)+"/burst", func(b *testing.B) { benchmarkReaction(b, engine, reactionAgents, 1) })
	}
}

const reactionAgents = 1_000

func benchmarkReaction(b *testing.B, engine db.Engine, jobs, builds int) {
	s := serve(b, dbtest.New(b, engine), func(time.Duration) time.Duration { return 10 * time.Second })
	ada := s.As(b, servertest.Ada)
	ada.Patch(servertest.HelloPath, fields{"configuration": fmt.Sprintf("steps: [{command: work, parallelism: %d}]", jobs)}).Want(200)
	r := &reaction{taken: make(chan error), ahead: make(chan struct{}), ended: make(chan error), accepted: map[string]time.Time{}}
	for _, m := range newMembers(b, s.URL, reactionAgents) {
		go r.work(m)
	}
	for b.Loop() {
		for range builds {
			ada.Post(servertest.HelloPath+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(201)
			r.await(b, r.taken, jobs)
			for range jobs {
				r.ahead <- struct{}{}
			}
			r.await(b, r.ended, jobs)
		}
	}
	took := r.times(b, s.DB)
	ms := func(part int) float64 { return float64(took[len(took)*part/100].Microseconds()) / 1000 }
	b.ReportMetric(ms(50), "ms-runnable-to-accepted-p50")
	b.ReportMetric(ms(99), "ms-runnable-to-accepted-p99")
	b.ReportMetric(0, "ns/op")
}

// reaction measures how soon jobs are accepted. No job runs before all jobs of its build are accepted, so that
// agents are not busy with other requests.
type reaction struct {
	taken, ended chan error // one value per job
	ahead        chan struct{}

	mu       sync.Mutex
	accepted map[string]time.Time // by job
}

// work pings and runs jobs as one agent, until its connection is closed.
func (r *reaction) work(m *member) {
	for {
		job, err := m.ping()
		if err != nil {
			return
		}
		if job == "" {
			continue
		}
		token, err := m.accept(job)
		now := time.Now()
		r.mu.Lock()
		r.accepted[job] = now
		r.mu.Unlock()
		r.taken <- err
		<-r.ahead
		r.ended <- m.run(job, token)
	}
}

// await waits for a number of values of a channel.
func (r *reaction) await(b *testing.B, so chan error, jobs int) {
	b.Helper()
	for range jobs {
		if err := <-so; err != nil {
			b.Fatal(err)
		}
	}
}

// times returns the times until jobs were accepted, sorted.
func (r *reaction) times(b *testing.B, d *db.DB) (took []time.Duration) {
	b.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	err := d.Read(b.Context(), func(q *db.Q) (err error) {
		took, err = db.All(q, func(scan db.Scan) (time.Duration, error) {
			var id string
			var runnable time.Time
			err := scan(&id, db.ToTime(&runnable))
			return r.accepted[id].Sub(runnable), err
		}, `SELECT id, runnable_at FROM jobs`)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	return took
}
