package lifecycle_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/platform/core"
)

// upload has a job add steps, each a line of YAML, to its build.
func (w *world) upload(jobID string, lines ...string) (*builds.StepUpload, error) {
	return w.uploadAs(core.NewID(), jobID, false, lines...)
}

func (w *world) uploadAs(id, jobID string, replace bool, lines ...string) (*builds.StepUpload, error) {
	source := "steps:\n  - " + strings.Join(lines, "\n  - ") + "\n"
	return w.Service.Upload(w.T.Context(), w.OrgID, jobID, lifecycle.Upload{ID: id, Definition: []byte(source), Replace: replace})
}

// uploading makes a build of hello with these steps, and has an agent run the one with the key up.
func (w *world) uploading(lines ...string) string {
	w.T.Helper()
	w.Steps(lines...)
	w.Create(nil)
	id := w.Job(1, "up")
	w.Start(id)
	return id
}

// wantRefused fails the test unless an error for a person contains texts.
func wantRefused(t testing.TB, err error, texts ...string) {
	t.Helper()
	if core.KindOf(err) != core.Unprocessable {
		t.Fatalf("got the error %v, want one that says what is wrong", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not contain %q", err, text)
		}
	}
}

func TestUpload_AddsStepsBehindTheUploadingOne(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		up := w.uploading("{command: up, key: up}", "wait", "{command: last, key: last}")
		done, err := w.upload(up, "{command: a, key: a, parallelism: 2}", "{command: b, key: b, depends_on: a}", `{command: no, key: no, if: build.branch == "x"}`)
		w.WantNoError(err)
		servertest.WantEqual(t, "created jobs", *done.CreatedJobs, 4)
		w.WantStates(1, "running", "up running, a waiting, a waiting, b waiting, no broken, waiter waiting, last waiting")
		w.End(up, 0)
		w.WantStates(1, "running", "up passed, a scheduled, a scheduled, b waiting, no broken, waiter waiting, last waiting")
		for _, j := range w.Jobs(1) {
			if j.StepKey == "a" {
				w.Start(j.ID)
				w.End(j.ID, 0)
			}
		}
		w.Run(1, "b", 0)
		w.Run(1, "last", 0)
		servertest.WantEqual(t, "build", w.Build(1).String("state"), "passed")
	})
}

func TestUpload_ReplacesWhatHasNotStarted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		up := w.uploading("{command: up, key: up}", "{command: old, key: work}", "wait", "{command: last, key: last}")
		_, err := w.uploadAs(core.NewID(), up, true, "{command: new, key: work}", "{command: after, key: after, depends_on: work}")
		w.WantNoError(err)
		w.End(up, 0)
		w.WantStates(1, "running", "up passed, work scheduled, after waiting, work skipped, waiter skipped, last skipped")
		for _, j := range w.Jobs(1) {
			if j.StepKey == "work" && j.State == "scheduled" {
				w.Start(j.ID)
				w.End(j.ID, 0)
			}
		}
		w.Run(1, "after", 0)
		servertest.WantEqual(t, "build", w.Build(1).String("state"), "passed")
	})
}

func TestUpload_JoinsTheGroupOfTheUploadingJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		up := w.uploading("{group: Tests, key: tests, steps: [{command: up, key: up}]}", "{command: last, key: last, depends_on: tests}")
		_, err := w.upload(up, "{group: Tests, steps: [{command: a, key: a}, {command: b, key: b}]}", "{group: Other, key: other, steps: [{command: c, key: c}]}")
		w.WantNoError(err)
		w.End(up, 0)
		w.Run(1, "a", 0)
		w.Run(1, "c", 0)
		servertest.WantEqual(t, "last", w.Ada.Get(acme+"/jobs/"+w.Job(1, "last")).String("state"), "waiting")
		w.Run(1, "b", 0)
		servertest.WantEqual(t, "last", w.Ada.Get(acme+"/jobs/"+w.Job(1, "last")).String("state"), "scheduled")
		for key, want := range map[string]string{"up": "tests", "a": "tests", "b": "tests", "c": "other"} {
			servertest.WantEqual(t, "group of "+key, w.Ada.Get(acme+"/jobs/"+w.Job(1, key)).String("group_key"), want)
		}
	})
}

func TestUpload_ChangesNothingWhenRepeated(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		up := w.uploading("{command: up, key: up}", "{command: other, key: other}")
		id := core.NewID()
		for range 3 {
			done, err := w.uploadAs(strings.ToUpper(id), up, false, "{command: a, key: a}")
			w.WantNoError(err)
			servertest.WantEqual(t, "id", done.ID, id)
			servertest.WantEqual(t, "created jobs", *done.CreatedJobs, 1)
		}
		w.WantStates(1, "running", "up running, a waiting, other scheduled")
		w.End(up, 0)
		_, err := w.uploadAs(id, up, false, "{command: a, key: a}") // its answer was lost
		w.WantNoError(err)

		// A rejection is remembered too.
		other := w.Job(1, "other")
		w.Start(other)
		refused := core.NewID()
		_, first := w.uploadAs(refused, other, false, "{command: a, key: a}")
		wantRefused(t, first, `The key "a" belongs to another step`)
		_, again := w.uploadAs(refused, other, false, "command: b")
		servertest.WantEqual(t, "the second answer", fmt.Sprint(again), fmt.Sprint(first))
		_, err = w.uploadAs(id, other, false, "command: b")
		wantRefused(t, err, "Another job")
	})
}

func TestUpload_CountsOnceHoweverManySendIt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		up := w.uploading("{command: up, key: up}")
		same := core.NewID()
		var agents sync.WaitGroup
		for i := range 8 {
			agents.Go(func() {
				if _, err := w.uploadAs(same, up, false, "{command: a, key: a}"); err != nil {
					t.Errorf("the same upload: %v", err)
				}
				if _, err := w.upload(up, fmt.Sprintf("{command: b, key: b%d}", i)); err != nil {
					t.Errorf("another upload: %v", err)
				}
			})
		}
		agents.Wait()
		servertest.WantEqual(t, "jobs", len(w.Jobs(1)), 10)
		servertest.WantEqual(t, "uploads", w.Ada.Get(hello+"/1/step-uploads").Len("items"), 9)
	})
}

func TestUpload_ReportsAllProblemsAndAddsNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		up := w.uploading("{command: up, key: up}", "{command: other, key: other}")
		many := make([]string, 0, 3)
		for range 3 {
			many = append(many, "{command: x, parallelism: 1333}")
		}
		for _, c := range []struct {
			lines []string
			want  []string
		}{
			{[]string{"{command: a, timeout_in_minutes: soon}", "{comand: b}"}, []string{"line 2", "timeout_in_minutes", "line 3", "did you mean command"}},
			{[]string{"{command: a, key: other}"}, []string{`"other"`}},
			{[]string{"{command: a, key: a, depends_on: b}", "{command: b, key: b, depends_on: a}"}, []string{"circle"}},
			{[]string{"{command: a, agents: {queue: gpu}}", "{command: b, agents: {queue: \"{{matrix}}\"}, matrix: [default, tpu]}"}, []string{`"gpu", "tpu"`, "default"}},
			{many, []string{"4001 jobs", "4000"}},
			{[]string{"{command: \"" + strings.Repeat("x", 20_000) + "\", parallelism: 3900}"}, []string{"67108864 bytes"}},
		} {
			_, err := w.upload(up, c.lines...)
			wantRefused(t, err, c.want...)
		}
		for _, source := range []string{"", "steps: []", "{", "steps: [\x00]", "steps: [\xff]", "a: \xff\x00{"} {
			_, err := w.Service.Upload(t.Context(), w.OrgID, up, lifecycle.Upload{ID: core.NewID(), Definition: []byte(source)})
			wantRefused(t, err, "cannot be read")
		}
		_, err := w.uploadAs("1", up, false, "command: a")
		wantRefused(t, err, "must be a UUID")
		_, err = w.upload(w.Job(1, "other"), "command: a")
		wantRefused(t, err, "running")
		if _, err := w.upload(core.NewID(), "command: a"); core.KindOf(err) != core.NotFound {
			t.Errorf("a job that does not exist: %v", err)
		}
		w.WantStates(1, "running", "up running, other scheduled")
	})
}

func TestUpload_HasVariablesAndDefaultsOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		buildstest.Configure(w.Server, t, "env: {A: pipeline, B: pipeline, C: pipeline}\nagents: {os: linux}\npriority: 3\nsteps:\n  - {command: up, key: up}\n")
		w.Create(map[string]any{"env": map[string]any{"B": "build", "D": "build"}})
		up := w.Job(1, "up")
		w.Start(up)
		source := `
env: {A: upload, B: upload, D: upload, E: upload}
agents: {arch: arm}
steps:
  - {command: "echo $A $$B", key: a, env: {E: step}}
  - {command: b, key: b, if: build.env("A") == "pipeline" && build.env("D") == "build" && build.state == "running"}
`
		_, err := w.Service.Upload(t.Context(), w.OrgID, up, lifecycle.Upload{ID: core.NewID(), Definition: []byte(source)})
		w.WantNoError(err)
		a := w.Ada.Get(acme + "/jobs/" + w.Job(1, "a"))
		servertest.WantAt(t, a, map[string]any{"command": "echo $A $$B", "agent_query_rules": []any{"arch=arm"}, "priority.number": 0})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+w.Job(1, "a")+"/env"), map[string]any{"env.A": "upload", "env.B": "build", "env.C": "pipeline", "env.D": "build", "env.E": "step"})
		servertest.WantAt(t, w.Ada.Get(acme+"/jobs/"+up+"/env"), map[string]any{"env.A": "pipeline", "env.B": "build", "env.C": "pipeline"})
		servertest.WantEqual(t, "b", w.Ada.Get(acme+"/jobs/"+w.Job(1, "b")).String("state"), "waiting")
	})
}

func TestUploads_AreListedNewestFirst(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		up := w.uploading("{command: up, key: up}", "{command: other, key: other}")
		other := w.Job(1, "other")
		w.Start(other)
		first, err := w.upload(up, "command: a", "command: b")
		w.WantNoError(err)
		second, err := w.uploadAs(core.NewID(), other, true, "command: c")
		w.WantNoError(err)
		refused := core.NewID()
		_, err = w.uploadAs(refused, up, false, "{command: a, retry: 7}")
		wantRefused(t, err)
		large, err := w.upload(up, "{command: d, label: "+strings.Repeat("x", 100_000)+"}")
		w.WantNoError(err)

		const uploads = hello + "/1/step-uploads"
		var got []string
		for path := uploads + "?per_page=3"; path != ""; {
			page := w.Ada.Get(path).Want(http.StatusOK)
			for i := range page.Len("items") {
				got = append(got, page.String(fmt.Sprintf("items.%d.uuid", i)))
			}
			path, _ = page.At("links.next").(string)
		}
		servertest.WantEqual(t, "uploads", strings.Join(got, " "), strings.Join([]string{large.ID, refused, second.ID, first.ID}, " "))
		of := w.Ada.Get(uploads + "?filter[source_job_id]=" + other).Want(http.StatusOK)
		servertest.WantEqual(t, "uploads of one job", of.Len("items"), 1)

		one := w.Ada.Get(uploads + "/" + second.ID).Want(http.StatusOK)
		servertest.WantAt(t, one, map[string]any{
			"uuid": second.ID, "graphql_id": core.GraphQLID("StepUpload", second.ID), "state": "applied", "source": "job", "source_job_id": other,
			"replace_existing_steps": true, "created_jobs_count": 1, "rejection_type": nil, "message": nil, "url": w.URL + uploads + "/" + second.ID,
			"created_at": w.Now(), "processed_at": w.Now(),
			"definition_bytes": 22, "definition_yaml": "steps:\n  - command: c\n", "definition_yaml_omitted": false,
		})
		servertest.WantAt(t, w.Ada.Get(uploads+"/"+refused), map[string]any{"state": "rejected", "created_jobs_count": nil, "rejection_type": "invalid_definition"})
		servertest.WantAt(t, w.Ada.Get(uploads+"/"+large.ID), map[string]any{"definition_yaml": nil, "definition_yaml_omitted": true})
		for _, path := range []string{uploads + "/" + core.NewID(), uploads + "/x"} {
			w.Ada.Get(path).WantMessage(http.StatusNotFound, "No step upload found")
		}
		w.As(t, servertest.Cy).Get(uploads).Want(http.StatusNotFound)
		w.As(t, servertest.Cy).Get(uploads + "/" + first.ID).Want(http.StatusNotFound)
		w.Create(nil)
		w.Ada.Get(hello + "/2/step-uploads/" + first.ID).Want(http.StatusNotFound)
	})
}
