package jobapi_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/artifact"
	"stackyard/internal/clients/runner/environ"
	blobs "stackyard/internal/platform/blob"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A directBucket is an object store that records requests with signed URLs, and can refuse them.
type directBucket struct {
	*httptest.Server
	mu      sync.Mutex
	refuses bool
	signed  []string // methods
}

func (b *directBucket) takeSigned() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	methods := strings.Join(b.signed, " ")
	b.signed = nil
	return methods
}

// eachWithBucket runs a test while a job runs on a server whose bucket agents can reach.
func eachWithBucket(t *testing.T, fn func(t *testing.T, w *servertest.RunningBuild, b *directBucket)) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		backend := s3mem.New()
		if err := backend.CreateBucket("blobs"); err != nil {
			t.Fatal(err)
		}
		fake, b := gofakes3.New(backend).Server(), &directBucket{}
		b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("X-Amz-Signature") {
				b.mu.Lock()
				refuses := b.refuses
				b.signed = append(b.signed, r.Method)
				b.mu.Unlock()
				if refuses || r.Method == http.MethodPut && r.Header.Get("X-Amz-Checksum-Sha256") == "" {
					http.Error(w, "refused", http.StatusForbidden)
					return
				}
			}
			fake.ServeHTTP(w, r)
		}))
		t.Cleanup(b.Close)
		store, err := blobs.Open("s3://blobs?direct=true&endpoint=" + b.URL)
		if err != nil {
			t.Fatal(err)
		}
		s := servertest.Start(t, d, func(p *server.Parts) { p.Blobs = store })
		s.Apply(servertest.World)
		fn(t, s.RunBuild(t), b)
	})
}

func TestDirect_AgentsAndBucketTransferBytesThemselves(t *testing.T) {
	eachWithBucket(t, func(t *testing.T, w *servertest.RunningBuild, b *directBucket) {
		client := api.New(w.URL+"/v3", w.Agent.Token, "test")
		dir := t.TempDir()
		for name, text := range map[string]string{"a.txt": "hello", "empty": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		upload := func(patterns string) {
			t.Helper()
			w.WantNoError(artifact.Upload{API: client, JobID: w.Job.ID, Dir: dir, Env: environ.Environment{}, Logf: t.Logf}.Run(t.Context(), patterns))
		}
		download := func(query string) string {
			t.Helper()
			found, err := client.SearchArtifacts(t.Context(), w.Build, api.ArtifactQuery{Glob: query, State: "finished"})
			w.WantNoError(err)
			to := t.TempDir()
			w.WantNoError(artifact.Download{API: client, Dir: to, Env: environ.Environment{}, Logf: t.Logf}.Run(t.Context(), found))
			text, err := os.ReadFile(filepath.Join(to, query))
			w.WantNoError(err)
			return string(text)
		}
		upload("a.txt;empty")
		servertest.WantEqual(t, "requests of the agent", b.takeSigned(), "PUT PUT")
		servertest.WantEqual(t, "content", download("a.txt"), "hello")
		servertest.WantEqual(t, "content", download("empty"), "")
		servertest.WantEqual(t, "requests of the agent", b.takeSigned(), "GET GET")

		// People download through the server.
		var list []struct{ ID string }
		w.Ada.Get(servertest.HelloPath + "/builds/" + w.Build + "/artifacts?per_page=1").Want(http.StatusOK).JSON(&list)
		redirect := w.Ada.Get("/v2/organizations/acme/jobs/" + w.Job.ID + "/artifacts/" + list[0].ID + "/download").Want(http.StatusFound)
		if !strings.HasPrefix(redirect.String("url"), w.URL) {
			t.Errorf("people download at %s", redirect.String("url"))
		}

		// An agent that cannot use the bucket sends files to the server.
		b.mu.Lock()
		b.refuses = true
		b.mu.Unlock()
		if err := os.WriteFile(filepath.Join(dir, "b.txt"), []byte("through"), 0o666); err != nil {
			t.Fatal(err)
		}
		upload("b.txt")
		servertest.WantEqual(t, "requests of the agent", b.takeSigned(), "PUT")
		b.mu.Lock()
		b.refuses = false
		b.mu.Unlock()
		servertest.WantEqual(t, "content", download("b.txt"), "through")
	})
}

func TestDirect_FinishesNoFileThatIsIncomplete(t *testing.T) {
	eachWithBucket(t, func(t *testing.T, w *servertest.RunningBuild, b *directBucket) {
		announced := batch(file{"a", "", "right"})
		if without := w.Post(w.Path("/artifacts"), announced).Want(http.StatusOK); without.Has("direct_uploads") {
			t.Error("an agent that does not say so gets direct uploads")
		}
		announced["direct_supported"] = true
		answer := w.Post(w.Path("/artifacts"), announced).Want(http.StatusOK)
		id := answer.String("artifact_ids.0")
		finish := fields{"artifacts": []fields{{"id": id, "state": "finished"}}}
		w.Put(w.Path("/artifacts"), finish).WantMessage(http.StatusUnprocessableEntity, "The bytes of a did not arrive")
		var uploads map[string]struct {
			URL     string
			Headers http.Header
		}
		answer.JSON(&struct {
			Direct any `json:"direct_uploads"`
		}{&uploads})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, uploads[id].URL, strings.NewReader("rig"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = uploads[id].Headers
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		w.Put(w.Path("/artifacts"), finish).WantMessage(http.StatusUnprocessableEntity, "Only 3 of the 5 bytes of a came")
	})
}
