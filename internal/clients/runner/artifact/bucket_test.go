package artifact

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/environ"
)

func TestBucket_GetsTheFilesInsteadOfTheServer(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	store := httptest.NewServer(gofakes3.New(backend).Server())
	defer store.Close()
	var created struct {
		Destination string         `json:"upload_destination"`
		Artifacts   []api.Artifact `json:"artifacts"`
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			json.NewDecoder(r.Body).Decode(&created)
			io.WriteString(w, `{"artifact_ids":["1"]}`)
			return
		}
		io.WriteString(w, `{}`)
	}))
	defer server.Close()
	env := environ.Environment{"SERVICE_S3_ENDPOINT": store.URL, "SERVICE_S3_ACCESS_KEY_ID": "id", "SERVICE_S3_SECRET_ACCESS_KEY": "secret"}
	dir := files(t, "out/a b.txt")
	client := api.New(server.URL+"/v3", "token", "test")
	upload := Upload{API: client, JobID: "j", Dir: dir, Destination: "s3://files/builds/7", Env: env, Logf: t.Logf}
	if err := upload.Run(t.Context(), "out/*"); err != nil {
		t.Fatal(err)
	}
	if created.Destination != "s3://files/builds/7" || len(created.Artifacts) != 1 || created.Artifacts[0].URL != store.URL+"/files/builds/7/out/a%20b.txt" {
		t.Errorf("created %+v", created)
	}
	found := created.Artifacts[0]
	found.Destination = created.Destination
	to := t.TempDir()
	if err := (Download{API: client, Dir: to, Env: env, Logf: t.Logf}).Run(t.Context(), []api.Artifact{found}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "out/a b.txt")); string(text) != "content of out/a b.txt" {
		t.Errorf("%q, %v", text, err)
	}
	for _, bad := range []string{"s3://", "gs://bucket/x", "/tmp", "s3://user@bucket"} {
		upload.Destination = bad
		if err := upload.Run(t.Context(), "out/*"); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
