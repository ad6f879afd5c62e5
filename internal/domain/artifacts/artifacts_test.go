package artifacts_test

import (
	"net/http"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/platform/core"
)

const (
	acme  = "/v2/organizations/acme"
	hello = acme + "/pipelines/hello/builds"
)

// A fixture is a server with the organization acme, as its administrator Ada sees it.
type fixture struct {
	*servertest.Server
	t         testing.TB
	ada       *servertest.Client
	orgID     string
	artifacts *artifacts.Service
}

// each runs a test with a fresh fixture on each engine.
func each(t *testing.T, fn func(t *testing.T, w *fixture)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		w := &fixture{Server: s, t: t, ada: s.As(t, servertest.Ada), orgID: s.OrganizationID(t, "acme")}
		w.artifacts = artifacts.New(s.DB, s.Builds().Reader, s.Clock.Now)
		fn(t, w)
	})
}

// create creates a build of the pipeline hello.
func (w *fixture) create() *servertest.Response {
	w.t.Helper()
	return w.ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main"}).Want(http.StatusCreated)
}

// upload adds artifacts to a job and returns their ids. Those with a location are finished.
func (w *fixture) upload(jobID string, list ...artifacts.Artifact) []string {
	w.t.Helper()
	for i, a := range list {
		if a.Location != "" {
			list[i].Destination = "s3://bucket"
		}
	}
	made, err := w.artifacts.Add(w.t.Context(), w.orgID, jobID, core.NewID(), list)
	if err != nil {
		w.t.Fatal(err)
	}
	ids := make([]string, len(made))
	finished := map[string]artifacts.State{}
	for i, a := range made {
		ids[i] = a.ID
		if a.Location != "" {
			finished[a.ID] = artifacts.StateFinished
		}
	}
	if err := w.artifacts.SetStates(w.t.Context(), w.orgID, jobID, finished); err != nil {
		w.t.Fatal(err)
	}
	return ids
}

func TestArtifacts_ShowEveryField(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.create().String("jobs.0.id")
		id := w.upload(job, artifacts.Artifact{Path: "log/a.txt", MimeType: "text/plain", FileSize: 12, SHA1: strings.Repeat("a", 40), SHA256: strings.Repeat("B", 64), Location: "https://files.test/a"})[0]
		url := w.URL + hello + "/1/jobs/" + job + "/artifacts/" + id
		for _, path := range []string{hello + "/1/jobs/" + job + "/artifacts/" + id, acme + "/jobs/" + job + "/artifacts/" + id} {
			servertest.WantAt(t, w.ada.Get(path).Want(http.StatusOK), map[string]any{
				"id": id, "job_id": job, "url": url, "download_url": url + "/download", "state": "finished",
				"path": "log/a.txt", "dirname": "log", "filename": "a.txt", "mime_type": "text/plain", "file_size": 12,
				"glob_path": nil, "original_path": nil, "sha1sum": strings.Repeat("a", 40), "sha256sum": strings.Repeat("b", 64),
			})
		}
		w.ada.Get(acme+"/jobs/"+job+"/artifacts/"+servertest.AdaID).WantMessage(http.StatusNotFound, "No artifact found")
	})
}

func TestArtifacts_ListByStateAndPath(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.create().String("jobs.0.id")
		w.upload(job,
			artifacts.Artifact{Path: "log/a.txt", Location: "https://files.test/a"},
			artifacts.Artifact{Path: "log/b.txt"},
			artifacts.Artifact{Path: "100%_done.bin", Location: "https://files.test/c"})
		for query, want := range map[string]string{
			"":                     "log/a.txt log/b.txt 100%_done.bin",
			"state=finished":       "log/a.txt 100%_done.bin",
			"state=NEW":            "log/b.txt",
			"state=expired":        "",
			"path=log/a.txt":       "log/a.txt",
			"path=log/*":           "log/a.txt log/b.txt",
			"path=*.bin":           "100%_done.bin",
			"path=100%25_*":        "100%_done.bin",
			"path=log":             "",
			"path=log/*&state=new": "log/b.txt",
			"per_page=1&page=2":    "log/b.txt",
		} {
			for _, path := range []string{hello + "/1/artifacts", hello + "/1/jobs/" + job + "/artifacts", acme + "/jobs/" + job + "/artifacts"} {
				var list []struct{ Path string }
				w.ada.Get(path + "?" + query).Want(http.StatusOK).JSON(&list)
				var got []string
				for _, a := range list {
					got = append(got, a.Path)
				}
				servertest.WantEqual(t, path+"?"+query, strings.Join(got, " "), want)
			}
		}
		w.ada.Get(hello + "/1/artifacts?state=lost").Want(http.StatusUnprocessableEntity)
	})
}

func TestArtifacts_AreHiddenOnceDeleted(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.create().String("jobs.0.id")
		id := w.upload(job, artifacts.Artifact{Path: "a", Location: "https://files.test/a"})[0]
		one := acme + "/jobs/" + job + "/artifacts/" + id
		w.As(t, servertest.Cy).Delete(one).Want(http.StatusNotFound)
		w.ada.Delete(one).Want(http.StatusNoContent)
		w.ada.Get(one).WantMessage(http.StatusNotFound, "No artifact found")
		w.ada.Delete(one).Want(http.StatusNotFound)
		for _, query := range []string{"", "?state=deleted"} {
			servertest.WantEqual(t, query, w.ada.Get(hello+"/1/artifacts"+query).Len(""), 0)
		}
	})
}

func TestArtifacts_OfAJobAreLimited(t *testing.T) {
	each(t, func(t *testing.T, w *fixture) {
		job := w.create().String("jobs.0.id")
		for range 50 {
			list := make([]artifacts.Artifact, 100)
			for i := range list {
				list[i].Path = core.NewID()
			}
			w.upload(job, list...)
		}
		_, err := w.artifacts.Add(t.Context(), w.orgID, job, core.NewID(), []artifacts.Artifact{{Path: "one more"}})
		if err == nil || err.Error() != "The job would have 5001 artifacts; 5000 are the most" {
			t.Errorf("got %v", err)
		}
	})
}
