package testresults_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// slack is how many rows more another plan for the same statement may read.
const slack = 3

// Uploading and reading results read as many rows after 90 days of runs as after 30.
func TestResults_CostTheSameWithALongHistory(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply("organizations: [{slug: acme, limits: {test_retention_days: 0}}]")
		w.ada = w.As(t, "svcua_ada")
		results, err := w.DB.Results(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		recorder := dbtest.Record(results)
		number := 0
		run := func(name string) body {
			number++
			return body{"key": fmt.Sprint("run-", number), "commit_sha": fmt.Sprint("commit-", number/2), "branch": "main", "job_id": name}
		}
		measure := func(days int) map[string][]dbtest.Statement {
			for range days {
				w.Clock.Advance(24 * time.Hour)
				w.upload(run("a"), "a passed", "b failed", "c passed")
			}
			build, commit := w.build(), fmt.Sprint("last-", days)
			last := w.upload(body{"key": build, "commit_sha": commit}, "a passed", "b failed", "c passed").String("run_id")
			test := w.get("/tests").String("0.id")
			recorded := map[string][]dbtest.Statement{}
			for _, step := range []struct {
				what string
				do   func()
			}{
				{"upload", func() { w.upload(body{"key": commit, "commit_sha": commit}, "a failed", "b failed", "c passed") }},
				{"list runs", func() { w.get("/runs?per_page=2").Want(http.StatusOK) }},
				{"get a run", func() { w.get("/runs/" + last).Want(http.StatusOK) }},
				{"failed executions", func() { w.get("/runs/" + last + "/failed_executions").Want(http.StatusOK) }},
				{"list flaky tests", func() { w.get("/flaky-tests?per_page=1").Want(http.StatusOK) }},
				{"tests of a build", func() { w.ada.Get(analytics + "/builds/" + build + "/tests").Want(http.StatusOK) }},
				{"summary", func() { w.ada.Get(analytics + "/builds/" + build + "/preflight/v1").Want(http.StatusOK) }},
				{"find a test", func() { w.ada.Post(w.suite+"/tests/find", body{"name": "a"}).Want(http.StatusOK) }},
				{"suites", func() { w.ada.Get(analytics + "/pipelines/hello/suites").Want(http.StatusOK) }},
				{"get a test", func() { w.get("/tests/" + test).Want(http.StatusOK) }},
				{"list tests", func() { w.get("/tests?per_page=2").Want(http.StatusOK) }},
			} {
				recorder.Take()
				step.do()
				recorded[step.what] = recorder.Take()
			}
			return recorded
		}
		few := measure(30)
		if w.DB.Engine() == db.SQLite {
			for what, statements := range few {
				for _, s := range statements {
					if strings.Contains(s.Text, "SELECT test_id") && strings.Contains(s.Text, "'failed'") && !strings.Contains(dbtest.Plan(t, results, s), "test_executions_failed") {
						t.Errorf("%s reads whole runs:\n%s\n%s", what, s.Text, dbtest.Plan(t, results, s))
					}
					for line := range strings.Lines(dbtest.Plan(t, results, s)) {
						if strings.Contains(line, "SCAN") && !strings.Contains(line, "json_each") && !strings.Contains(line, "SCAN e\n") && !strings.Contains(line, "CONSTANT") {
							t.Errorf("%s scans a table:\n%s\n%s", what, s.Text, dbtest.Plan(t, results, s))
						}
					}
				}
			}
			return
		}
		rows := map[string]map[string]int{}
		for what, statements := range few {
			rows[what] = dbtest.RowsRead(t, results, statements)
		}
		for what, statements := range measure(60) {
			for table, n := range dbtest.RowsRead(t, results, statements) {
				if few := rows[what][table]; n > few+slack && !strings.HasPrefix(table, "pipeline_counts") {
					t.Errorf("%s reads %d rows of %s after 90 days, %d after 30", what, n, table, few)
				}
			}
		}
	})
}
