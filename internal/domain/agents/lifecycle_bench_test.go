package agents_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

// BenchmarkLifecycle creates builds with many jobs, and agents take each job through its life over HTTP:
// offered, accepted, started, one line of log, finished, log sealed. The baseline inserts the bare rows with
// the same concurrency: those of a build together, and each again in its own transaction for each of the five
// state changes.
func BenchmarkLifecycle(b *testing.B) {
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) { benchmarkLifecycle(b, engine) })
	}
}

const (
	lifecycleJobs   = 500
	lifecycleAgents = 32
	lifecycleMoves  = 5
)

func benchmarkLifecycle(b *testing.B, engine db.Engine) {
	d := onDisk(b, engine)
	s := serve(b, d, func(time.Duration) time.Duration { return 100 * time.Millisecond })
	s.As(b, servertest.Ada).Patch(servertest.HelloPath, fields{"configuration": fmt.Sprintf("steps: [{command: work, parallelism: %d}]", lifecycleJobs)}).Want(200)
	fleet := newMembers(b, s.URL, lifecycleAgents)
	var ours, theirs time.Duration
	var statements int64
	for b.Loop() {
		before, began := d.Statements(), time.Now()
		build := runBuild(b, s, fleet)
		ours += time.Since(began)
		statements += d.Statements() - before
		bare := readBare(b, d, build)
		began = time.Now()
		bare.write(b, d)
		theirs += time.Since(began)
	}
	jobs := float64(b.N * lifecycleJobs)
	b.ReportMetric(jobs/ours.Seconds(), "jobs/s")
	b.ReportMetric(jobs/theirs.Seconds(), "bare-jobs/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "rate/bare-inserts")
	b.ReportMetric(float64(statements)/jobs, "statements/job")
	b.ReportMetric(0, "ns/op")
}

// runBuild creates a build and returns its id when all its jobs have ended and their logs are sealed.
func runBuild(b *testing.B, s *servertest.Server, fleet []*member) string {
	b.Helper()
	build := s.As(b, servertest.Ada).Post(servertest.HelloPath+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(201)
	var ended atomic.Int64
	concurrently(b, len(fleet), func(i int) error {
		for ended.Load() < lifecycleJobs {
			job, err := fleet[i].ping()
			if err != nil {
				return err
			}
			if job == "" {
				continue
			}
			token, err := fleet[i].accept(job)
			if err != nil {
				return err
			}
			if err := fleet[i].run(job, token); err != nil {
				return err
			}
			ended.Add(1)
		}
		return nil
	})
	for sealing(b, s.DB) {
		time.Sleep(10 * time.Millisecond)
	}
	return build.String("id")
}

// sealing reports whether logs wait to be sealed.
func sealing(b *testing.B, d *db.DB) (due bool) {
	b.Helper()
	err := d.Read(b.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT EXISTS (SELECT 1 FROM tasks WHERE kind = 'log-seal')`).Scan(&due)
	})
	if err != nil {
		b.Fatal(err)
	}
	return due
}

// bareRows are rows of jobs and the statement that inserts them into a table with the same columns and nothing
// else.
type bareRows struct {
	insert string
	rows   [][]any
}

// readBare reads the jobs of a build.
func readBare(b *testing.B, d *db.DB, buildID string) (bare bareRows) {
	b.Helper()
	err := d.Write(b.Context(), func(q *db.Q) error {
		if _, err := q.Exec(`CREATE TABLE IF NOT EXISTS bare_jobs AS SELECT * FROM jobs WHERE 1 = 0`); err != nil {
			return err
		}
		rows, err := q.Query(`SELECT * FROM jobs WHERE build_id = $1`, buildID)
		if err != nil {
			return err
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		parameters := make([]string, len(columns))
		for i := range columns {
			parameters[i] = fmt.Sprint("$", i+1)
		}
		bare = bareRows{insert: `INSERT INTO bare_jobs (` + strings.Join(columns, ", ") + `) VALUES (` + strings.Join(parameters, ", ") + `)`}
		for rows.Next() {
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			bare.rows = append(bare.rows, row)
		}
		return rows.Err()
	})
	if err != nil {
		b.Fatal(err)
	}
	return bare
}

// write inserts all rows together, and each again for each of its state changes.
func (bare bareRows) write(b *testing.B, d *db.DB) {
	b.Helper()
	write := func(rows ...[]any) error {
		return d.Write(b.Context(), func(q *db.Q) error {
			for _, row := range rows {
				if _, err := q.Exec(bare.insert, row...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := write(bare.rows...); err != nil {
		b.Fatal(err)
	}
	concurrently(b, lifecycleAgents, func(first int) error {
		for i := first; i < len(bare.rows); i += lifecycleAgents {
			for range lifecycleMoves {
				if err := write(bare.rows[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
