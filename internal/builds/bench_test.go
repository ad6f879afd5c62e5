package builds_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"stackyard/internal/builds"
	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/db/dbtest"
	"stackyard/internal/flow"
	"stackyard/internal/orgfile"
	"stackyard/internal/outbound"
	"stackyard/internal/pipelines"
	"stackyard/internal/seal"
	"stackyard/internal/server/servertest"
)

// BenchmarkBuild makes builds of different sizes and lets all their jobs run, and tells what each job
// took. The times must not grow with the number of jobs.
func BenchmarkBuild(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		for _, jobs := range []int{100, 1_000, 4_000} {
			b.Run(fmt.Sprintf("%s/%d", engine, jobs), func(b *testing.B) { benchmarkBuild(b, engine, jobs) })
		}
	}
}

func benchmarkBuild(b *testing.B, engine db.Engine, jobs int) {
	d := dbtest.New(b, engine)
	key := seal.NewKey()
	if _, err := orgfile.Apply(b.Context(), d, key, core.SystemClock, []byte(servertest.World)); err != nil {
		b.Fatal(err)
	}
	rooms := pipelines.New(d, key, "http://ci.test", core.SystemClock, outbound.New(nil))
	service := builds.New(d, rooms, "http://ci.test", core.SystemClock, slog.New(slog.DiscardHandler))
	p := &pipelines.Pipeline{}
	var org string
	err := d.Read(b.Context(), func(q *db.Q) (err error) {
		if err := q.QueryRow(`SELECT organization_id FROM pipelines WHERE id = $1`, servertest.AcmePipelineID).Scan(&org); err != nil {
			return err
		}
		p, err = pipelines.ByID(q, pipelines.System(org), servertest.AcmePipelineID)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	p.Configuration = fmt.Sprintf("steps:\n  - {command: work, parallelism: %d}\n  - wait\n  - command: end\n", jobs-2)
	var making, running time.Duration
	for b.Loop() {
		began := time.Now()
		build, err := service.Create(b.Context(), p, builds.Creation{Commit: "HEAD", Branch: "main", Source: builds.FromAPI})
		if err != nil {
			b.Fatal(err)
		}
		made := time.Now()
		making += made.Sub(began)
		runAll(b, d, service, org, build.ID)
		running += time.Since(made)
	}
	each := float64(b.N * jobs)
	b.ReportMetric(float64(making.Microseconds())/each, "µs/job-created")
	b.ReportMetric(float64(running.Microseconds())/each, "µs/job-run")
	b.ReportMetric(making.Seconds()/float64(b.N), "s/create")
	b.ReportMetric(0, "ns/op")
}

// runAll takes all scheduled jobs of a build through an agent's hands until there are none.
func runAll(b *testing.B, d *db.DB, service *builds.Service, org, buildID string) {
	ctx := b.Context()
	for {
		var ids []string
		err := d.Read(ctx, func(q *db.Q) (err error) {
			ids, err = db.All(q, func(scan db.Scan) (id string, err error) { return id, scan(&id) },
				`SELECT id FROM jobs WHERE build_id = $1 AND state = 'scheduled'`, buildID)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		if len(ids) == 0 {
			return
		}
		for _, id := range ids {
			for _, move := range []func() error{
				func() error { return service.Assign(ctx, org, id) },
				func() error { return service.Accept(ctx, org, id) },
				func() error { return service.Start(ctx, org, id) },
				func() error { return service.Finish(ctx, org, id, flow.Exit{}, "") },
			} {
				if err := move(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
