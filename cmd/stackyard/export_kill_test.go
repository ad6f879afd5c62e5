package main

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// The server is killed at random moments while it exports builds. Each finished build is exported completely, and not
// again after the server has recorded that it is exported.
func TestServe_ExportsEveryBuildOnceAfterKill9(t *testing.T) {
	t.Parallel()
	t.Run(string(db.SQLite), func(t *testing.T) {
		t.Parallel()
		data := t.TempDir()
		exportDespiteKills(t, 3**faults, []string{"--data", data}, "sqlite:"+filepath.Join(data, "stackyard.db"))
	})
	t.Run(string(db.PostgreSQL), func(t *testing.T) {
		t.Parallel()
		url := dbtest.URL(t, db.PostgreSQL)
		exportDespiteKills(t, 1**faults, onPostgres(t, url), url)
	})
}

func exportDespiteKills(t *testing.T, rounds int, installation []string, database string) {
	bucket := startBucket(t)
	serve := func() *process {
		cmd := command(append([]string{"serve", "--listen", "127.0.0.1:0"}, installation...)...)
		cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL_S3="+bucket.URL, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret", "AWS_SESSION_TOKEN=")
		p := spawn(t, cmd)
		p.waitReady(t)
		return p
	}
	apply(t, installation, notifyFile)
	p := serve()
	p.ask(t, adaToken, "PUT", "/v2/organizations/acme/pipeline-settings/build-export", `{"location": "builds", "strategy_id": "s3"}`).want(t, http.StatusOK)
	finished := 0
	for range rounds {
		runBuilds(t, p)
		finished += buildsBetweenKills
		waiting := makeExportsDue(t, p, database)
		bucket.forgetArrivals()
		p = serve()
		for range 1 + rand.IntN(filesOfBuild*waiting) {
			select {
			case <-bucket.arrived:
			case <-time.After(2 * waitLimit):
				t.Fatal("no file arrived")
			}
		}
		p.kill()
		bucket.afterKill(pendingExports(t, database))
		p = serve()
	}
	makeExportsDue(t, p, database)
	p = serve()
	eventually(t, 4*waitLimit, "all builds are exported", func() bool { return bucket.complete() >= finished })
	p.stop(t)
	if left := pendingExports(t, database); len(left) != 0 {
		t.Errorf("%d builds wait to be exported", len(left))
	}
	bucket.check(t, finished)
	t.Logf("killed %d times: %d builds exported, %d of them again because the server died before it recorded the export", 2*rounds+1, finished, bucket.repeated)
}

// filesOfBuild is how many files the export of a build of notifyFile has.
const filesOfBuild = 4

// makeExportsDue kills the server when it has noted all builds that have finished, and makes them due: builds are
// exported minutes after their end. It returns how many wait.
func makeExportsDue(t *testing.T, p *process, database string) (waiting int) {
	t.Helper()
	d := dbtest.Open(t, database)
	defer d.Close()
	eventually(t, 2*waitLimit, "all finished builds are noted", func() (noted bool) {
		err := d.Read(t.Context(), func(q *db.Q) error {
			return q.QueryRow(`
				SELECT NOT EXISTS (SELECT 1 FROM events WHERE name = 'build.finished' AND seq > (SELECT seq FROM event_cursors WHERE id = 'build-exports'))`).Scan(&noted)
		})
		return err == nil && noted
	})
	p.kill()
	err := d.Write(t.Context(), func(q *db.Q) error {
		now := db.Micros(core.SystemClock())
		if _, err := q.Exec(`UPDATE build_exports SET next_at = $1`, now); err != nil {
			return err
		}
		// This also ends the lease of a process that was killed.
		if _, err := q.Exec(`UPDATE tasks SET run_at = $1, due_at = $1 WHERE kind = 'build-export'`, now); err != nil {
			return err
		}
		return q.QueryRow(`SELECT COUNT(*) FROM build_exports`).Scan(&waiting)
	})
	if err != nil || waiting == 0 {
		t.Fatalf("%d builds wait to be exported, error %v", waiting, err)
	}
	return waiting
}

// pendingExports returns the ids of builds whose export no server has recorded.
func pendingExports(t *testing.T, database string) map[string]bool {
	t.Helper()
	d := dbtest.Open(t, database)
	defer d.Close()
	pending := map[string]bool{}
	err := d.Read(t.Context(), func(q *db.Q) error {
		ids, err := db.Strings(q, `SELECT build_id FROM build_exports`)
		for _, id := range ids {
			pending[id] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

// A killBucket is an object store that notes which builds are exported.
type killBucket struct {
	*httptest.Server
	t       *testing.T
	backend gofakes3.Backend
	arrived chan struct{}

	mu       sync.Mutex
	repeated int
	exported map[string]string // the folders of builds whose manifest was written, by id
	recorded map[string]bool   // those of them that the server has recorded, when it was last killed
}

func startBucket(t *testing.T) *killBucket {
	b := &killBucket{t: t, backend: s3mem.New(), arrived: make(chan struct{}, 1_000_000), exported: map[string]string{}, recorded: map[string]bool{}}
	if err := b.backend.CreateBucket("builds"); err != nil {
		t.Fatal(err)
	}
	fake := gofakes3.New(b.backend).Server()
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fake.ServeHTTP(w, r)
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/stackyard-exports/") {
			b.note(strings.TrimPrefix(r.URL.Path, "/builds/"))
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// note notes that a file was written.
func (b *killBucket) note(key string) {
	folder, name := path.Split(key)
	build := path.Base(folder)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.recorded[build] {
		b.t.Errorf("%s of build %s was written again after its export was recorded", name, build)
	}
	if name == "manifest.json" {
		if b.exported[build] != "" {
			b.repeated++
		}
		b.exported[build] = folder
	}
	b.arrived <- struct{}{}
}

// forgetArrivals forgets the files that have arrived so far.
func (b *killBucket) forgetArrivals() {
	for len(b.arrived) > 0 {
		<-b.arrived
	}
}

// afterKill notes which exports the server has recorded: all that are complete and not pending.
func (b *killBucket) afterKill(pending map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for build := range b.exported {
		b.recorded[build] = !pending[build]
	}
}

// complete returns how many builds have a manifest.
func (b *killBucket) complete() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.exported)
}

// check compares the files of each build with its manifest.
func (b *killBucket) check(t *testing.T, builds int) {
	t.Helper()
	if len(b.exported) != builds {
		t.Errorf("%d builds are exported, want %d", len(b.exported), builds)
	}
	for build, folder := range b.exported {
		var manifest struct {
			Build struct{ ID, State string }
			Files []struct {
				Name string
				Size int
			}
		}
		if err := json.Unmarshal(b.read(t, folder+"manifest.json"), &manifest); err != nil {
			t.Fatal(err)
		}
		if manifest.Build.ID != build || manifest.Build.State != "passed" || len(manifest.Files) != filesOfBuild-1 {
			t.Errorf("the manifest of build %s is %+v", build, manifest)
		}
		for _, f := range manifest.Files {
			if got := len(b.read(t, folder+f.Name)); got != f.Size {
				t.Errorf("%s of build %s has %d bytes, want %d", f.Name, build, got, f.Size)
			}
		}
	}
}

// read returns a file.
func (b *killBucket) read(t *testing.T, key string) []byte {
	t.Helper()
	object, err := b.backend.GetObject("builds", key, nil)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	defer object.Contents.Close()
	content, err := io.ReadAll(object.Contents)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
