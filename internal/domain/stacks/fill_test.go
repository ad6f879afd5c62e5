package stacks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// fillBuild is the number of jobs in each build of a long queue.
const fillBuild = 1_000

// A longQueue is a server whose default queue has many scheduled jobs, with the stack robot and without rate
// limits.
type longQueue struct {
	*servertest.Server
	t      testing.TB
	build  string // the first
	caller *servertest.Caller
}

// newLongQueue starts a server with a number of builds of fillBuild jobs each. The first is created over the
// API, the others are copies of its rows.
func newLongQueue(t testing.TB, d *db.DB, builds int) *longQueue {
	t.Helper()
	s := servertest.Start(t, d, func(p *server.Parts) { p.Clock = core.SystemClock })
	s.Apply(servertest.World)
	s.Apply(`organizations: [{slug: acme, limits: {rest_requests_per_second: 0, stack_requests_per_second: {
		list-scheduled-jobs: 1000000, batch-reserve: 1000000, batch-load-job-states: 1000000, default: 1000000}}}]`)
	ada := s.As(t, servertest.Ada)
	ada.Patch(hello, fields{"configuration": fmt.Sprintf("steps: [{command: work, agents: {os: linux}, parallelism: %d}]", fillBuild)}).Want(200)
	q := &longQueue{Server: s, t: t}
	q.build = ada.Post(hello+"/builds", fields{"commit": "HEAD", "branch": "main"}).Want(201).String("id")
	s.AsAgent(t, servertest.AcmeAgent).Post("/v3/stacks/register", registration("robot")).Want(201)
	q.copyBuild(q.build, builds-1)
	caller, err := servertest.Dial(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { caller.Close() })
	q.caller = caller
	return q
}

// copyBuild adds n copies of a build, each a moment later than the one before.
func (q *longQueue) copyBuild(id string, times int) {
	q.t.Helper()
	const batch = 20
	for from := 0; from < times; from += batch {
		err := q.DB.Write(q.t.Context(), func(sql *db.Q) error {
			if q.DB.Engine() == db.PostgreSQL { // avoids looking up the build of each of a million jobs
				if _, err := sql.Exec(`SET LOCAL session_replication_role = replica`); err != nil {
					return err
				}
			}
			for _, c := range []struct{ table, where string }{
				{"builds", "o.id = $1"},
				{"steps", "o.build_id = $1"},
				{"jobs", "o.build_id = $1"},
				{"runnable", "o.build_id = $1"},
			} {
				if err := copyRows(sql, c.table, c.where, id, from, min(batch, times-from)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			q.t.Fatal(err)
		}
	}
	if q.DB.Engine() == db.PostgreSQL {
		q.exec(`ANALYZE`)
	}
}

// copyRows copies the rows of a table that match a condition. The ids of the nth copy contain n and keep their
// ends.
func copyRows(q *db.Q, table, where, id string, from, times int) error {
	rows, err := q.Query(`SELECT * FROM ` + table + ` WHERE 1 = 0`)
	if err != nil {
		return err
	}
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	values := make([]string, len(columns))
	for i, column := range columns {
		switch column {
		case "id", "build_id", "step_id", "job_id":
			values[i] = `substr(CAST(10000000 + $2 + n.i AS TEXT), 1, 8) || substr(o.` + column + `, 9)`
		case "number":
			values[i] = `o.number + 1000000 + $2 + n.i` // apart from builds that are created
		case "scheduled_at":
			values[i] = `o.scheduled_at + ($2 + n.i) * 1000`
		default:
			values[i] = `o.` + column
		}
	}
	_, err = q.Exec(`
		WITH RECURSIVE n (i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $3)
		INSERT INTO `+table+` (`+strings.Join(columns, ", ")+`)
		SELECT `+strings.Join(values, ", ")+` FROM n CROSS JOIN `+table+` o WHERE `+where, id, from, times)
	return err
}

func (q *longQueue) exec(statement string, args ...any) {
	q.t.Helper()
	err := q.DB.Write(q.t.Context(), func(sql *db.Q) error {
		_, err := sql.Exec(statement, args...)
		return err
	})
	if err != nil {
		q.t.Fatal(err)
	}
}

// call calls the stacks API as robot and returns the duration.
func (q *longQueue) call(method, path, body string, into any) time.Duration {
	q.t.Helper()
	began := time.Now()
	if err := q.caller.Call(method, robot+path, servertest.AcmeAgent, body, into); err != nil {
		q.t.Fatal(err)
	}
	return time.Since(began)
}

// A jobPage has the fields of a list that tests need.
type jobPage struct {
	Jobs     []struct{ ID string }
	PageInfo struct {
		EndCursor string `json:"end_cursor"`
	} `json:"page_info"`
}

func (p jobPage) ids() []string {
	ids := make([]string, len(p.Jobs))
	for i, j := range p.Jobs {
		ids[i] = j.ID
	}
	return ids
}
