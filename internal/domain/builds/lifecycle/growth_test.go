package lifecycle_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// grow makes builds of hello until it has a number of them, none of which has ended.
func (w *world) grow(t *testing.T, count int) {
	t.Helper()
	for number := 0.0; number < float64(count); {
		number = w.Create(nil).At("number").(float64)
	}
}

// allOfPipeline matches a step of SQLite's plan that reads every build of a pipeline.
var allOfPipeline = regexp.MustCompile(`(?m)(SCAN|SEARCH) (b|builds)\b.*\(pipeline_id=\?( AND state=\?)?\)$`)

// Creating a build and loading its pipeline read as many rows with 300 unfinished builds as with 20.
func TestCreate_CostsTheSameWithManyUnfinishedBuilds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}", "wait", "{command: b, key: b}")
		recorder := dbtest.Record(w.DB)
		measure := func(unfinished int) map[string][]dbtest.Statement {
			w.grow(t, unfinished)
			recorded := map[string][]dbtest.Statement{}
			for what, do := range map[string]func(){
				"create a build":  func() { w.Create(nil) },
				"get a pipeline":  func() { w.Ada.Get(acme + "/pipelines/hello").Want(http.StatusOK) },
				"list pipelines":  func() { w.Ada.Get(acme + "/pipelines").Want(http.StatusOK) },
				"list the newest": func() { w.Ada.Get(hello + "?per_page=1").Want(http.StatusOK) },
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

// copyBuilds adds builds with other meta-data to the pipeline of the newest build.
func copyBuilds(t *testing.T, d *db.DB, count int) error {
	const id = `'00000000-0000-7000-8000-' || lpad(i::text, 12, '0')`
	return d.Write(t.Context(), func(q *db.Q) error {
		for _, text := range []string{
			`INSERT INTO builds (id, organization_id, pipeline_id, number, branch, commit_name, source, state, tally, waiting_jobs, scheduled_jobs, running_jobs, created_at, scheduled_at)
				SELECT ` + id + `, organization_id, pipeline_id, -i, branch, commit_name, source, state, tally, 0, 0, 0, created_at, scheduled_at
				FROM generate_series(1, $1::int) i, (SELECT * FROM builds ORDER BY id DESC LIMIT 1) b`,
			`INSERT INTO build_details (build_id, env, pipeline_env, clean_checkout) SELECT ` + id + `, '{}', '{}', FALSE FROM generate_series(1, $1::int) i`,
			`INSERT INTO build_meta_data (build_id, organization_id, pipeline_id, key, value)
				SELECT ` + id + `, organization_id, pipeline_id, 'n', -i FROM generate_series(1, $1::int) i, (SELECT * FROM builds ORDER BY id DESC LIMIT 1) b`,
		} {
			if _, err := q.Exec(text, count); err != nil {
				return err
			}
		}
		return nil
	})
}

// Lists that ask for meta-data read the builds of their page, and neither all builds nor all that have it.
func TestList_FindsMetaDataByAnIndex(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.AddPipeline("other", nil, "{command: x}")
		long := strings.Repeat("long ", 20_000)
		for i := range 60 {
			data := map[string]any{"env": "production", "n": fmt.Sprint(i)}
			if i == 7 {
				data["long"] = long
			}
			w.Create(map[string]any{"meta_data": data})
		}
		w.Ada.Post(acme+"/pipelines/other/builds", map[string]any{"commit": "HEAD", "branch": "main", "meta_data": map[string]any{"env": "production"}}).Want(http.StatusCreated)
		if w.DB.Engine() == db.PostgreSQL {
			w.WantNoError(copyBuilds(t, w.DB, 3_000)) // few builds are best read one after the other
		}
		recorder := dbtest.Record(w.DB)
		for path, most := range map[string]int{
			hello + "?per_page=2&meta_data[env]=production":                       4, // one more than the page, to know whether there is another page
			hello + "?per_page=2&meta_data[n]=3":                                  1,
			acme + "/builds?per_page=2&meta_data[env]=production":                 4,
			acme + "/builds?per_page=2&meta_data[n]=3":                            1,
			acme + "/pipelines/other/builds?per_page=2&meta_data[env]=production": 1,
			acme + "/pipelines/other/builds?per_page=2&meta_data[n]=3":            0,
		} {
			recorder.Take()
			w.Ada.Get(path).Want(http.StatusOK)
			searched := false
			for _, s := range recorder.Take() {
				if !strings.Contains(s.Text, "FROM builds b") || !strings.Contains(s.Text, "build_meta_data") {
					continue
				}
				searched = true
				if w.DB.Engine() == db.SQLite {
					if plan := dbtest.Plan(t, w.DB, s); !strings.Contains(plan, "SEARCH m USING INDEX build_meta_data_") || strings.Contains(plan, "TEMP B-TREE") {
						t.Errorf("%s: %s", path, plan)
					}
				} else if rows := dbtest.RowsRead(t, w.DB, []dbtest.Statement{s}); rows["builds"] > most || rows["build_meta_data"] > most+1 {
					t.Errorf("%s reads %v", path, rows)
				}
			}
			if !searched {
				t.Errorf("%s looks for no meta-data", path)
			}
		}
		servertest.WantEqual(t, "newest first", buildstest.Numbers(t, w.Ada.Get(hello+"?per_page=3&meta_data[env]=production")), "60 59 58")
		servertest.WantEqual(t, "the second page", buildstest.Numbers(t, w.Ada.Get(hello+"?per_page=3&page=2&meta_data[env]=production")), "57 56 55")
		servertest.WantEqual(t, "none", buildstest.Numbers(t, w.Ada.Get(hello+"?meta_data[long]="+url.QueryEscape(long[:200]))), "")
		var many []string
		for i := range 1_200 {
			many = append(many, fmt.Sprintf("meta_data[k%d]=x", i))
		}
		w.Ada.Get(hello+"?"+strings.Join(many, "&")).WantMessage(http.StatusBadRequest, "meta_data has 1200 keys; at most 100 are possible")
	})
}

func TestRuleSets_AreRemovedWhenNoJobHasThem(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, agents: {os: linux}}")
		w.AddPipeline("other", nil, "{command: x, agents: {os: plan9}}")
		w.Create(nil)
		w.Ada.Post(acme+"/pipelines/other/builds", map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		counter := dbtest.CountStatements(w.DB)
		w.Create(nil)
		servertest.WantEqual(t, "writes of a set that was used a moment ago", counter.Take().Of("INSERT INTO rule_sets"), 0)

		w.Ada.Delete(acme + "/pipelines/other").Want(http.StatusNoContent)
		sets := func() string { return strings.Join(w.rowsOf(`SELECT rules FROM rule_sets ORDER BY rules`), " ") }
		w.Pass(0)
		servertest.WantEqual(t, "at first", sets(), `["os=linux"] ["os=plan9"]`)
		for range 3 {
			w.Pass(25 * time.Hour)
			servertest.WantEqual(t, "a day later", sets(), `["os=linux"]`)
		}
		counter.Take()
		w.Create(nil)
		servertest.WantEqual(t, "writes of a set that was used long ago", counter.Take().Of("INSERT INTO rule_sets"), 0) // the sweep found it in use
		servertest.WantEqual(t, "in the end", sets(), `["os=linux"]`)
	})
}

// A page of builds that would be too large is refused with what to ask for instead.
func TestList_BoundsTheBytesOfAPage(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: '" + strings.Repeat("x", 60_000) + "', parallelism: 100}")
		for range 12 { // 6 MB each
			w.Ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		}
		for _, path := range []string{hello, acme + "/builds", "/v2/builds"} {
			w.Ada.Get(path).WantMessage(http.StatusBadRequest,
				"This page has more than 67108864 bytes; ask for fewer items at a time with per_page, or leave out jobs and pipelines with exclude_jobs=true and exclude_pipeline=true")
		}
		w.Ada.Get(hello + "?per_page=1").Want(http.StatusOK)
		w.Ada.Get(hello + "?exclude_jobs=true").Want(http.StatusOK)
	})
}
