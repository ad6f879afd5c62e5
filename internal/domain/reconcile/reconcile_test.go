package reconcile_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/caches"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/platform/core"
)

const acme = "/v2/organizations/acme"

// world is a server with a build whose job has finished.
type world struct {
	*servertest.Server
	t          *testing.T
	ada        *servertest.Client
	org        string
	build, job string
	files      *artifacts.Service
}

func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := &world{Server: s, t: t, ada: s.As(t, servertest.Ada), org: s.OrganizationID(t, "acme")}
		sc := s.Scenario(t)
		w.build, w.job = sc.CreateBuild()
		sc.StartJob(w.job).Finish("0")
		w.files = artifacts.New(s.DB, s.Builds().Reader, s.Clock.Now)
		fn(t, w)
	})
}

// put stores a blob below a prefix.
func (w *world) put(prefix string) {
	w.t.Helper()
	if err := w.Blobs.Put(w.t.Context(), prefix+"/x", strings.NewReader("x"), 1); err != nil {
		w.t.Fatal(err)
	}
}

// has reports whether there is a blob below a prefix.
func (w *world) has(prefix string) bool {
	w.t.Helper()
	for _, err := range w.Blobs.List(w.t.Context(), prefix) {
		if err != nil {
			w.t.Fatal(err)
		}
		return true
	}
	return false
}

// artifact adds a finished artifact, with or without its bytes.
func (w *world) artifact(path string, stored bool) {
	w.t.Helper()
	made, err := w.files.Add(w.t.Context(), w.org, w.job, core.NewID(), []artifacts.Artifact{{Path: path, FileSize: 1}})
	if err == nil {
		err = w.files.SetStates(w.t.Context(), w.org, w.job, map[string]artifacts.State{made[0].ID: artifacts.StateFinished})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if stored {
		w.put(builds.Prefix(w.org, servertest.AcmePipelineID, w.build) + "/artifacts/" + made[0].ID)
	}
}

// states returns how many artifacts have each state.
func (w *world) states() map[string]int {
	w.t.Helper()
	var list []struct{ State string }
	w.ada.Get(acme + "/jobs/" + w.job + "/artifacts?per_page=100").Want(http.StatusOK).JSON(&list)
	count := map[string]int{}
	for _, a := range list {
		count[a.State]++
	}
	return count
}

func (w *world) runLater(d time.Duration) {
	w.t.Helper()
	w.Clock.Advance(d)
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func TestOrphans_AreRemovedAndNothingElse(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		of := func(build string) string { return builds.Prefix(w.org, servertest.AcmePipelineID, build) }
		gone := of(core.NewID())
		kept := []string{of(w.build), "backups/of/another/program", w.org + "/" + servertest.AcmePipelineID + "/" + caches.Folder + "/" + core.NewID()}
		w.put(gone + "/logs")
		for _, prefix := range kept {
			w.put(prefix + "/logs")
		}
		w.runLater(0)
		if !w.has(gone) {
			t.Error("a blob was removed that may belong to a build which is being created")
		}
		w.runLater(6 * 24 * time.Hour)
		if !w.has(gone) {
			t.Error("a blob was removed before the administrator of a restored database had a week")
		}
		w.runLater(25 * time.Hour)
		if w.has(gone) {
			t.Error("a blob without a build is left")
		}
		for _, prefix := range kept {
			if !w.has(prefix) {
				t.Errorf("%s was removed", prefix)
			}
		}
	})
}

func TestMissing_ArtifactsAndLogsAreMarked(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.artifact("there", true)
		w.artifact("gone", false)
		w.runLater(2 * time.Hour)
		if got := w.states(); got["finished"] != 1 || got["error"] != 1 {
			t.Errorf("states are %v", got)
		}
		used := w.ada.Get(acme + "/usage").Want(http.StatusOK)
		if used.At("artifacts.count") != 1.0 {
			t.Errorf("usage is %s", used.Body)
		}
	})
}

// A server with the wrong store changes nothing.
func TestMissing_ManyAreLeftAsTheyAre(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for range 60 {
			w.artifact("gone", false)
		}
		w.runLater(2 * time.Hour)
		if got := w.states(); got["finished"] != 60 {
			t.Errorf("states are %v", got)
		}
	})
}

func TestMissing_LogsCountAsDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		sc := w.Scenario(t)
		build, job := sc.CreateBuild()
		running := sc.StartJob(job)
		text := strings.Repeat("a line\n", 10_000)
		running.With("Content-Type", "application/octet-stream").Post(running.Path("/chunks?sequence=1&offset=0&size=70000"), text).Want(http.StatusOK)
		running.Finish("0")
		w.runLater(time.Second)
		at := joblog.Job{OrganizationID: w.org, PipelineID: servertest.AcmePipelineID, BuildID: build, ID: job}
		if err := w.Blobs.DeleteAll(t.Context(), builds.Prefix(at.OrganizationID, at.PipelineID, at.BuildID)+"/logs"); err != nil {
			t.Fatal(err)
		}
		w.runLater(2 * time.Hour)
		log := w.ada.Get(acme + "/jobs/" + job + "/log").Want(http.StatusOK)
		if log.At("size") != 0.0 {
			t.Errorf("the log has %v bytes", log.At("size"))
		}
		if used := w.ada.Get(acme + "/usage"); used.At("logs.count") != 0.0 {
			t.Errorf("usage is %s", used.Body)
		}
	})
}
