package builds_test

import (
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"stackyard/internal/db"
	"stackyard/internal/db/dbtest"
)

// grow makes builds of hello until it has a number of them, none of which has ended.
func (w *world) grow(t *testing.T, count int) {
	t.Helper()
	for number := 0.0; number < float64(count); {
		number = w.create(nil).At("number").(float64)
	}
}

// allOfPipeline matches a step of SQLite's plan that reads every build of a pipeline.
var allOfPipeline = regexp.MustCompile(`(?m)(SCAN|SEARCH) (b|builds)\b.*\(pipeline_id=\?( AND state=\?)?\)$`)

// Creating a build and loading its pipeline read as many rows with 300 unfinished builds as with 20.
func TestCreate_CostsTheSameWithManyUnfinishedBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: a, key: a}", "wait", "{command: b, key: b}")
		recorder := dbtest.Record(w.DB)
		measure := func(unfinished int) map[string][]dbtest.Statement {
			w.grow(t, unfinished)
			recorded := map[string][]dbtest.Statement{}
			for what, do := range map[string]func(){
				"create a build":  func() { w.create(nil) },
				"get a pipeline":  func() { w.ada.Get(acme + "/pipelines/hello").Want(http.StatusOK) },
				"list pipelines":  func() { w.ada.Get(acme + "/pipelines").Want(http.StatusOK) },
				"list the newest": func() { w.ada.Get(hello + "?per_page=1").Want(http.StatusOK) },
			} {
				recorder.Take()
				do()
				recorded[what] = recorder.Take()
			}
			return recorded
		}
		few := measure(20)
		if w.DB.Engine() == db.SQLite {
			for what, statements := range few {
				for _, s := range statements {
					if plan := dbtest.Plan(t, w.DB, s); allOfPipeline.MatchString(plan) && !strings.Contains(s.Text, "LIMIT") {
						t.Errorf("%s reads all builds of the pipeline:\n%s\n%s", what, s.Text, plan)
					}
				}
			}
			return
		}
		rows := map[string]map[string]int{}
		for what, statements := range few {
			rows[what] = dbtest.RowsRead(t, w.DB, statements)
		}
		for what, statements := range measure(300) {
			got := dbtest.RowsRead(t, w.DB, statements)
			// At most 16 of a pipeline, each time that it is loaded.
			if n := got["pipeline_counts"]; n > 2*16 {
				t.Errorf("%s reads %d rows of counts", what, n)
			}
			delete(got, "pipeline_counts")
			delete(rows[what], "pipeline_counts")
			if !maps.Equal(got, rows[what]) {
				t.Errorf("%s reads %v with 300 unfinished builds, %v with 20", what, got, rows[what])
			}
		}
	})
}

// wantCounts fails the test unless the counts of hello are those of its unfinished builds.
func (w *world) wantCounts() {
	w.t.Helper()
	var shown, counted struct {
		ID              string
		ScheduledBuilds int `json:"scheduled_builds_count"`
		RunningBuilds   int `json:"running_builds_count"`
		ScheduledJobs   int `json:"scheduled_jobs_count"`
		RunningJobs     int `json:"running_jobs_count"`
		WaitingJobs     int `json:"waiting_jobs_count"`
	}
	w.ada.Get(acme + "/pipelines/hello").Want(http.StatusOK).JSON(&shown)
	counted.ID = shown.ID
	err := w.DB.Read(w.t.Context(), func(q *db.Q) error {
		return q.QueryRow(`
			SELECT COALESCE(SUM(CASE WHEN state IN ('creating', 'scheduled') THEN 1 ELSE 0 END), 0),
				COALESCE(SUM(CASE WHEN state IN ('running', 'failing', 'canceling') THEN 1 ELSE 0 END), 0),
				COALESCE(SUM(scheduled_jobs), 0), COALESCE(SUM(running_jobs), 0), COALESCE(SUM(waiting_jobs), 0)
			FROM builds WHERE finished_at IS NULL AND pipeline_id = $1`, shown.ID).
			Scan(&counted.ScheduledBuilds, &counted.RunningBuilds, &counted.ScheduledJobs, &counted.RunningJobs, &counted.WaitingJobs)
	})
	if err != nil || shown != counted {
		w.t.Errorf("the pipeline counts %+v, its unfinished builds make %+v, %v", shown, counted, err)
	}
}
