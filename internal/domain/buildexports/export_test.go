package buildexports_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// decode decodes JSON.
func decode(t testing.TB, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// lines decodes a file with a line of JSON for each value.
func lines(t testing.TB, text string) (list []any) {
	t.Helper()
	for line := range strings.Lines(text) {
		list = append(list, decode(t, line))
	}
	return list
}

func wantSame(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n%v\nwant:\n%v", what, got, want)
	}
}

func TestExport_HasWhatTheAPIShows(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.exportTo("s3://builds/ci")
		created := w.create("first", "second")
		id, first, second := created.String("id"), created.String("jobs.0.id"), created.String("jobs.1.id")
		w.run(first, "+++ it <fails>\n", "1")
		retried := w.ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK).String("id")
		log := strings.Repeat("0123456789abcde\n", 1<<15) // 512 KiB: more than one chunk at once
		job := w.agent.Acquire(retried).Start()
		print(job, log)
		batch := job.Post(job.Path("/artifacts"), map[string]any{"id": core.NewID(), "upload_destination": "s3://elsewhere/x", "artifacts": []any{
			map[string]any{"path": "out/a.txt", "absolute_path": "/out/a.txt", "file_size": 5, "sha1_sum": "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d", "url": "https://elsewhere.test/a.txt"},
		}}).Want(http.StatusOK)
		job.Put(job.Path("/artifacts"), map[string]any{"artifacts": []any{map[string]any{"id": batch.String("artifact_ids.0"), "state": "finished"}}}).Want(http.StatusOK)
		job.Finish("0")
		w.run(second, "", "0")
		w.pass(6*time.Minute - time.Second)
		wantSame(t, "keys before the delay", w.keys("builds"), []string(nil))
		w.pass(time.Second)

		folder := "ci/" + w.folder(id)
		files := []string{"artifacts.jsonl", "build.json", "jobs.jsonl", "logs/" + first + ".log", "logs/" + retried + ".log", "manifest.json"}
		if first > retried {
			files[3], files[4] = files[4], files[3]
		}
		var keys []string
		for _, name := range files {
			keys = append(keys, folder+"/"+name)
		}
		wantSame(t, "keys", w.keys("builds"), keys)

		build := w.ada.Get(hello + "/1?exclude_jobs=true&exclude_pipeline=true").Want(http.StatusOK).At("").(map[string]any)
		delete(build, "job_state_counts")
		got := decode(t, w.read("builds", folder+"/build.json")).(map[string]any)
		for field, value := range got {
			wantSame(t, "build: "+field, value, build[field])
		}
		for _, field := range []string{"id", "number", "state", "meta_data", "finished_at", "env", "creator"} {
			if _, ok := got[field]; !ok {
				t.Errorf("build.json lacks %s", field)
			}
		}
		wantSame(t, "jobs", lines(t, w.read("builds", folder+"/jobs.jsonl")), w.ada.Get(hello+"/1?include_retried_jobs=true").Want(http.StatusOK).At("jobs"))
		wantSame(t, "artifacts", lines(t, w.read("builds", folder+"/artifacts.jsonl")), w.ada.Get(hello+"/1/artifacts").Want(http.StatusOK).At(""))
		wantSame(t, "first log", w.read("builds", folder+"/logs/"+first+".log"), "+++ it <fails>\n")
		if w.read("builds", folder+"/logs/"+retried+".log") != log {
			t.Error("the log of the retried job differs")
		}
		manifest := decode(t, w.read("builds", folder+"/manifest.json")).(map[string]any)
		listed := manifest["files"].([]any)
		if len(listed) != len(files)-1 {
			t.Errorf("the manifest lists %v", listed)
		}
		for _, f := range listed {
			f := f.(map[string]any)
			if size := len(w.read("builds", folder+"/"+f["name"].(string))); float64(size) != f["size"] {
				t.Errorf("%v has %d bytes", f, size)
			}
		}
		delete(manifest, "files")
		wantSame(t, "manifest", manifest, map[string]any{
			"version": 1.0, "exported_at": w.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
			"organization": map[string]any{"id": w.OrganizationID(t, "acme"), "slug": "acme", "name": "Acme Inc"},
			"pipeline":     map[string]any{"id": servertest.AcmePipelineID, "slug": "hello", "name": "Hello"},
			"build":        map[string]any{"id": id, "number": 1.0, "state": "passed", "finished_at": build["finished_at"]},
		})
		written := w.written()
		if last := written[len(written)-1]; !strings.HasSuffix(last, "/manifest.json") {
			t.Errorf("the last file is %s", last)
		}
		w.wantPending(0)
		w.pass(24 * time.Hour)
		wantSame(t, "files written later", w.written(), []string(nil))
	})
}

func TestExport_WorksWithBothStrategies(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Put(export, map[string]any{"location": "gs://other", "strategy_id": "gcs"}).Want(http.StatusOK)
		id := w.build("hi\n")
		w.pass(6 * time.Minute)
		if keys := w.keys("other"); len(keys) != 5 || !strings.HasPrefix(keys[0], w.folder(id)) {
			t.Errorf("keys %q", keys)
		}
	})
}

func TestExport_IncludesLateOutput(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.create("make")
		job := w.agent.Acquire(b.String("jobs.0.id")).Start()
		job.Finish("0")
		w.pass(4 * time.Minute)
		print(job, "late\n")
		w.pass(2 * time.Minute)
		wantSame(t, "log", w.read("builds", w.folder(b.String("id"))+"/logs/"+job.ID+".log"), "late\n")
	})
}

func TestExport_HasManyJobsAndArtifacts(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const jobs, files = 230, 250
		w.ada.Patch(servertest.HelloPath, map[string]any{"configuration": "steps: [{command: many, parallelism: 230}]"}).Want(http.StatusOK)
		b := w.ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		job := w.agent.Acquire(b.String("jobs.0.id")).Start()
		for range files / 50 {
			var announced []any
			for range 50 {
				announced = append(announced, map[string]any{"path": core.NewID(), "absolute_path": "/x", "file_size": 1, "sha1_sum": "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d", "url": "https://elsewhere.test/x"})
			}
			job.Post(job.Path("/artifacts"), map[string]any{"id": core.NewID(), "upload_destination": "s3://elsewhere/x", "artifacts": announced}).Want(http.StatusOK)
		}
		job.Finish("0")
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.pass(6 * time.Minute)
		folder := w.folder(b.String("id"))
		ids := map[any]bool{}
		for _, j := range lines(t, w.read("builds", folder+"/jobs.jsonl")) {
			ids[j.(map[string]any)["id"]] = true
		}
		if len(ids) != jobs {
			t.Errorf("%d jobs, want %d", len(ids), jobs)
		}
		paths := map[any]bool{}
		for _, a := range lines(t, w.read("builds", folder+"/artifacts.jsonl")) {
			paths[a.(map[string]any)["path"]] = true
		}
		if len(paths) != files {
			t.Errorf("%d artifacts, want %d", len(paths), files)
		}
	})
}

func TestExport_IsRepeatedWhenABuildFinishesAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.create("make")
		first := b.String("jobs.0.id")
		state := func() any {
			build := decode(t, w.read("builds", w.folder(b.String("id"))+"/manifest.json")).(map[string]any)["build"]
			return build.(map[string]any)["state"]
		}
		w.run(first, "no\n", "1")
		w.pass(6 * time.Minute)
		wantSame(t, "state", state(), "failed")
		again := w.ada.Put(acme+"/jobs/"+first+"/retry", nil).Want(http.StatusOK).String("id")
		w.pass(time.Hour)
		wantSame(t, "state while it runs again", state(), "failed")
		w.run(again, "yes\n", "0")
		w.pass(6 * time.Minute)
		wantSame(t, "state", state(), "passed")
		w.wantPending(0)
	})
}

func TestExport_WaitsUntilABuildThatRunsAgainHasFinished(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.create("make")
		w.run(b.String("jobs.0.id"), "no\n", "1")
		w.pass(time.Minute)
		again := w.ada.Put(acme+"/jobs/"+b.String("jobs.0.id")+"/retry", nil).Want(http.StatusOK).String("id")
		w.pass(time.Hour)
		wantSame(t, "files of a running build", w.written(), []string(nil))
		w.run(again, "yes\n", "0")
		w.pass(6 * time.Minute)
		if n := len(w.written()); n != 6 {
			t.Errorf("%d files, want 6", n)
		}
	})
}

func TestExport_LeavesOutBuildsThatAreNotFinishedOrDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.ada.Patch(servertest.HelloPath, map[string]any{"configuration": "steps: [{block: wait}]"}).Want(http.StatusOK)
		w.ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
		w.pass(time.Hour)
		w.wantPending(0)
		w.build("hi\n")
		w.pass(0)
		w.wantPending(1)
		w.ada.Delete(servertest.HelloPath).Want(http.StatusNoContent)
		w.pass(time.Hour)
		w.wantPending(0)
		wantSame(t, "files", w.written(), []string(nil))
	})
}

func TestExport_NotesLogsWhoseBytesAreMissing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.create("make")
		job := b.String("jobs.0.id")
		w.run(job, strings.Repeat("too much for the database\n", 2000), "0")
		w.pass(time.Minute) // the log is sealed
		prefix := ""
		err := w.DB.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`SELECT archive FROM job_logs WHERE job_id = $1`, job).Scan(&prefix)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Blobs.Delete(t.Context(), prefix); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Minute)
		files := decode(t, w.read("builds", w.folder(b.String("id"))+"/manifest.json")).(map[string]any)["files"].([]any)
		wantSame(t, "last file", files[len(files)-1], map[string]any{"name": "logs/" + job + ".log", "size": 0.0, "error": "The stored bytes of this log are missing"})
		w.wantPending(0)
	})
}
