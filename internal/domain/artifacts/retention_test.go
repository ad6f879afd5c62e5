package artifacts_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/core"
)

// store adds a finished artifact whose bytes the server stores, and returns its id.
func (w *fixture) store(job, path string, size int64) string {
	w.t.Helper()
	made, err := w.artifacts.Add(w.t.Context(), w.orgID, job, core.NewID(), []artifacts.Artifact{{Path: path, FileSize: size}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.putBytes(made[0].Prefix(), size)
	for range 2 { // agents repeat themselves
		if err := w.artifacts.SetStates(w.t.Context(), w.orgID, job, map[string]artifacts.State{made[0].ID: artifacts.StateFinished}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.Clock.Advance(time.Minute)
	return made[0].ID
}

// putBytes stores a blob of an artifact.
func (w *fixture) putBytes(prefix string, size int64) {
	w.t.Helper()
	if err := w.Blobs.Put(w.t.Context(), prefix+"/1", bytes.NewReader(make([]byte, size)), size); err != nil {
		w.t.Fatal(err)
	}
}

// wantUsage checks what the organization stores.
func (w *fixture) wantUsage(bytes, count float64) {
	w.t.Helper()
	got := w.ada.Get(acme + "/usage").Want(http.StatusOK)
	if got.At("artifacts.bytes") != bytes || got.At("artifacts.count") != count {
		w.t.Errorf("usage is %s, want %v bytes in %v artifacts", got.Body, bytes, count)
	}
}

func (w *fixture) states(job string) string {
	w.t.Helper()
	var list []struct{ Path, State string }
	w.ada.Get(acme + "/jobs/" + job + "/artifacts").Want(http.StatusOK).JSON(&list)
	var got []string
	for _, a := range list {
		got = append(got, a.Path+" "+a.State)
	}
	return strings.Join(got, ", ")
}

func TestUsage_CountsWhatIsStored(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.create().String("jobs.0.id")
		w.wantUsage(0, 0)
		id := w.store(job, "a", 100)
		w.store(job, "b", 20)
		w.upload(job, artifacts.Artifact{Path: "elsewhere", FileSize: 1000, Location: "https://files.test/a", Destination: "s3://files"})
		w.wantUsage(120, 2)
		for range 2 {
			w.ada.Delete(acme + "/jobs/" + job + "/artifacts/" + id)
		}
		w.wantUsage(20, 1)
		w.ada.Delete("/v2/organizations/acme/pipelines/hello").Want(http.StatusNoContent)
		w.Clock.Advance(time.Hour)
		for range 3 {
			if err := w.RunDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.wantUsage(0, 0)
	})
}

func TestQuota_RefusesUploadsOrRemovesTheOldest(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.create().String("jobs.0.id")
		w.ada.Patch(acme+"/retention", map[string]any{"artifact_bytes": 1000}).Want(http.StatusOK)
		w.store(job, "a", 400)
		w.store(job, "b", 400)
		add := func(size int64) error {
			_, err := w.artifacts.Add(t.Context(), w.orgID, job, core.NewID(), []artifacts.Artifact{{Path: "c", FileSize: size}})
			return err
		}
		if err := add(300); core.KindOf(err) != core.Unprocessable || !strings.Contains(err.Error(), "stores artifacts of 800 bytes and may store 1.0 KB") {
			t.Errorf("an upload over the limit: %v", err)
		}
		if err := add(200); err != nil {
			t.Errorf("an upload up to the limit: %v", err)
		}
		w.ada.Patch(acme+"/retention", map[string]any{"at_artifact_limit": "remove_oldest"}).Want(http.StatusOK)
		if err := add(1001); core.KindOf(err) != core.Unprocessable {
			t.Errorf("an upload larger than the limit: %v", err)
		}
		w.store(job, "d", 300)
		w.Clock.Advance(2 * time.Hour)
		if err := w.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantUsage(700, 2)
		if got := w.states(job); !strings.Contains(got, "a expired, b finished") {
			t.Errorf("artifacts: %s", got)
		}
	})
}

func TestRetention_ExpiresOldArtifacts(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.create().String("jobs.0.id")
		old := w.store(job, "old", 100)
		w.Clock.Advance(9 * 24 * time.Hour)
		w.store(job, "new", 30)
		w.ada.Patch(acme+"/retention", map[string]any{"artifact_retention_days": 7}).Want(http.StatusOK)
		w.Clock.Advance(2 * time.Hour)
		if err := w.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantUsage(30, 1)
		if got := w.states(job); got != "old expired, new finished" {
			t.Errorf("artifacts: %s", got)
		}
		if err := w.artifacts.SetStates(t.Context(), w.orgID, job, map[string]artifacts.State{old: artifacts.StateFinished}); err != nil {
			t.Fatal(err)
		}
		w.wantUsage(30, 1)
		w.As(t, servertest.Bo).Get(acme + "/usage").Want(http.StatusForbidden)
	})
}
