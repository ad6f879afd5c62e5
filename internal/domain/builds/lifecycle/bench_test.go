package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/orgfile"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/outbound"
	"stackyard/internal/platform/seal"
	"stackyard/internal/rules/flow"
)

// BenchmarkBuild creates builds of different sizes and runs all their jobs. It reports what each job
// took. The times must not grow with the number of jobs.
func BenchmarkBuild(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		for _, jobs := range []int{100, 1_000, 4_000} {
			b.Run(fmt.Sprintf("%s/%d", engine, jobs), func(b *testing.B) { benchmarkBuild(b, engine, jobs) })
		}
	}
}

// A bench is a pipeline of many jobs, and what is done to its builds.
type bench struct {
	*db.DB
	service  *lifecycle.Service
	pipeline *pipelines.Pipeline
	org      string
}

func newBench(b *testing.B, d *db.DB, jobs int) *bench {
	key := seal.NewKey()
	if _, err := orgfile.Apply(b.Context(), d, key, core.SystemClock, []byte(servertest.World)); err != nil {
		b.Fatal(err)
	}
	return useBench(b, d, key, jobs)
}

// useBench is newBench for a database that has the world in it.
func useBench(b *testing.B, d *db.DB, key seal.Key, jobs int) *bench {
	service := pipelines.New(d, key, "http://ci.test", core.SystemClock, outbound.New(nil))
	w := &bench{DB: d, service: lifecycle.New(d, service, "http://ci.test", core.SystemClock, slog.New(slog.DiscardHandler))}
	err := d.Read(b.Context(), func(q *db.Q) (err error) {
		if err := q.QueryRow(`SELECT organization_id FROM pipelines WHERE id = $1`, servertest.AcmePipelineID).Scan(&w.org); err != nil {
			return err
		}
		w.pipeline, err = pipelines.ByID(q, pipelines.System(w.org), servertest.AcmePipelineID)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	w.pipeline.Configuration = fmt.Sprintf("steps:\n  - {command: work, parallelism: %d}\n  - wait\n  - command: end\n", jobs-2)
	return w
}

// create makes a build.
func (w *bench) create(b *testing.B) *builds.Build {
	build, err := w.service.Create(b.Context(), w.pipeline, lifecycle.Creation{Commit: "HEAD", Branch: "main", Source: builds.FromAPI})
	if err != nil {
		b.Fatal(err)
	}
	return build
}

func benchmarkBuild(b *testing.B, engine db.Engine, jobs int) {
	w := newBench(b, dbtest.New(b, engine), jobs)
	var making, running time.Duration
	for b.Loop() {
		began := time.Now()
		build := w.create(b)
		made := time.Now()
		making += made.Sub(began)
		w.runAll(b, build.ID)
		running += time.Since(made)
	}
	each := float64(b.N * jobs)
	b.ReportMetric(float64(making.Microseconds())/each, "µs/job-created")
	b.ReportMetric(float64(running.Microseconds())/each, "µs/job-run")
	b.ReportMetric(making.Seconds()/float64(b.N), "s/create")
	b.ReportMetric(0, "ns/op")
}

// runAll takes all scheduled jobs of a build through an agent's hands until there are none.
func (w *bench) runAll(b *testing.B, buildID string) {
	for {
		ids := w.jobs(b, `SELECT id FROM jobs WHERE build_id = $1 AND state = 'scheduled'`, buildID)
		if len(ids) == 0 {
			return
		}
		for _, id := range ids {
			w.run(b, id)
		}
	}
}

// jobs returns the ids of jobs.
func (w *bench) jobs(b *testing.B, query string, args ...any) (ids []string) {
	err := w.Read(b.Context(), func(q *db.Q) (err error) {
		ids, err = db.All(q, func(scan db.Scan) (id string, err error) { return id, scan(&id) }, query, args...)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return ids
}

// run takes a scheduled job through an agent's hands.
func (w *bench) run(b *testing.B, id string) {
	ctx, service, org := b.Context(), w.service, w.org
	for _, move := range []func() error{
		func() error { return buildstest.Assign(ctx, w.DB, service, org, id) },
		func() error { return service.Accept(ctx, org, id, "") },
		func() error { return service.Start(ctx, org, id, "") },
		func() error { return service.Finish(ctx, org, id, "", flow.Exit{}, "") },
	} {
		if err := move(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConcurrency runs all jobs of builds through a concurrency group two at a time. It reports what
// each took. The times must not grow with the number of those that wait in line.
func BenchmarkConcurrency(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		for _, method := range []string{"ordered", "eager"} {
			for _, jobs := range []int{100, 1_000, 4_000} {
				b.Run(fmt.Sprintf("%s/%s/%d", engine, method, jobs), func(b *testing.B) {
					w := newBench(b, dbtest.New(b, engine), jobs)
					w.pipeline.Configuration = fmt.Sprintf("steps:\n  - {command: work, parallelism: %d, concurrency: 2, concurrency_group: g, concurrency_method: %s}\n", jobs, method)
					var taken time.Duration
					for b.Loop() {
						build := w.create(b)
						began := time.Now()
						for _, id := range w.jobs(b, `SELECT id FROM jobs WHERE build_id = $1 ORDER BY position`, build.ID) {
							w.run(b, id)
						}
						taken += time.Since(began)
					}
					b.ReportMetric(float64(taken.Microseconds())/float64(b.N*jobs), "µs/job-run")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkCancel cancels builds that have not started. It reports what each job took.
func BenchmarkCancel(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		for _, jobs := range []int{100, 1_000, 4_000} {
			b.Run(fmt.Sprintf("%s/%d", engine, jobs), func(b *testing.B) {
				w := newBench(b, dbtest.New(b, engine), jobs)
				var taken time.Duration
				for b.Loop() {
					build := w.create(b)
					began := time.Now()
					if err := w.service.Cancel(b.Context(), w.org, build.ID, ""); err != nil {
						b.Fatal(err)
					}
					taken += time.Since(began)
				}
				b.ReportMetric(float64(taken.Microseconds())/float64(b.N*jobs), "µs/job")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkPages reads the jobs of a build page by page. It reports how the last pages compare with the
// first: their cost must not grow with their depth.
func BenchmarkPages(b *testing.B) {
	const jobs, pages = 4_000, 40
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		b.Run(string(engine), func(b *testing.B) {
			s := servertest.Start(b, dbtest.New(b, engine))
			s.Apply(servertest.World)
			useBench(b, s.DB, s.Key, jobs).create(b)
			var taken [pages]time.Duration
			for b.Loop() {
				path := "/v2/organizations/acme/pipelines/hello/builds/1/jobs?per_page=100"
				for i := range taken {
					began := time.Now()
					var page struct{ Links struct{ Next string } }
					request := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
					request.Header.Set("Authorization", "Bearer "+servertest.Ada)
					response := httptest.NewRecorder()
					s.ServeHTTP(response, request)
					taken[i] += time.Since(began)
					if err := json.Unmarshal(response.Body.Bytes(), &page); err != nil || response.Code != http.StatusOK {
						b.Fatal(err, response.Body)
					}
					path = strings.TrimPrefix(page.Links.Next, s.URL)
				}
			}
			var first, last time.Duration
			for i := range 10 {
				first += taken[i]
				last += taken[pages-1-i]
			}
			b.ReportMetric(float64(first.Microseconds())/float64(10*b.N), "µs/page")
			b.ReportMetric(float64(last)/float64(first), "time/first-page")
			b.ReportMetric(0, "ns/op")
		})
	}
}
