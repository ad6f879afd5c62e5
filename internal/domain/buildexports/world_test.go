package buildexports_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

const (
	acme   = "/v2/organizations/acme"
	export = acme + "/pipeline-settings/build-export"
	hello  = servertest.HelloPath + "/builds"
)

// A store is an S3 server in this process with two buckets.
type store struct {
	t       testing.TB
	url     string
	backend gofakes3.Backend

	mu     sync.Mutex
	puts   []string          // paths that were written, in order
	refuse func(string) bool // which paths cannot be written; nil: none
	hold   func(string) bool // which path is written after release; nil: none
	held   chan struct{}     // is closed when that path is about to be written
	freed  chan struct{}     // is closed by release
}

// startStore starts a store and points the test's environment to it, for both strategies.
func startStore(t *testing.T) *store {
	t.Helper()
	s := &store{t: t, backend: s3mem.New()}
	for _, bucket := range []string{"builds", "other"} {
		if err := s.backend.CreateBucket(bucket); err != nil {
			t.Fatal(err)
		}
	}
	fake := gofakes3.New(s.backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && !s.put(r.URL.Path) {
			http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusForbidden)
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3": s.url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "",
		"GCS_ENDPOINT_URL": s.url, "GCS_ACCESS_KEY_ID": "key", "GCS_SECRET_ACCESS_KEY": "secret",
	} {
		t.Setenv(name, value)
	}
	return s
}

// put notes that a path is written and reports whether it can be.
func (s *store) put(path string) bool {
	if strings.Contains(path, "stackyard-check") {
		return true
	}
	s.mu.Lock()
	if s.hold != nil && s.hold(path) {
		s.hold = nil
		close(s.held)
		s.mu.Unlock()
		<-s.freed
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.refuse != nil && s.refuse(path) {
		return false
	}
	s.puts = append(s.puts, path)
	return true
}

// holdNext has the next file that matches wait. held is closed when it does, and release lets it continue.
func (s *store) holdNext(match func(path string) bool) (held <-chan struct{}, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold, s.held, s.freed = match, make(chan struct{}), make(chan struct{})
	return s.held, sync.OnceFunc(func() { close(s.freed) })
}

// setRefused sets which paths cannot be written.
func (s *store) setRefused(refuse func(path string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// written returns the paths that were written since the last call.
func (s *store) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	puts := s.puts
	s.puts = nil
	return puts
}

// keys returns the keys of a bucket in order.
func (s *store) keys(bucket string) (keys []string) {
	s.t.Helper()
	list, err := s.backend.ListBucket(bucket, nil, gofakes3.ListBucketPage{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, object := range list.Contents {
		keys = append(keys, object.Key)
	}
	slices.Sort(keys)
	return keys
}

// read returns an object.
func (s *store) read(bucket, key string) string {
	s.t.Helper()
	object, err := s.backend.GetObject(bucket, key, nil)
	if err != nil {
		s.t.Fatalf("%s: %v", key, err)
	}
	defer object.Contents.Close()
	content, err := io.ReadAll(object.Contents)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(content)
}

// A world is a running server and a store to which acme exports builds.
type world struct {
	*servertest.Server
	*store
	t     *testing.T
	ada   *servertest.Client
	agent *servertest.Agent
}

func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		noon := s.Clock.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour) // folders have dates
		s.Clock.Advance(noon.Sub(s.Clock.Now()))
		w := &world{Server: s, store: startStore(t), t: t, ada: s.As(t, servertest.Ada), agent: s.Register(t, nil)}
		w.exportTo("builds")
		fn(t, w)
	})
}

func (w *world) exportTo(location string) {
	w.t.Helper()
	w.ada.Put(export, map[string]any{"location": location, "strategy_id": "s3"}).Want(http.StatusOK)
}

// create creates a build of commands and returns it.
func (w *world) create(commands ...string) *servertest.Response {
	w.t.Helper()
	steps := ""
	for _, command := range commands {
		steps += fmt.Sprintf("  - {command: %s}\n", command)
	}
	w.ada.Patch(servertest.HelloPath, map[string]any{"configuration": "steps:\n" + steps}).Want(http.StatusOK)
	return w.ada.Post(hello, map[string]any{"commit": "HEAD", "branch": "main", "meta_data": map[string]string{"release": "7"}}).Want(http.StatusCreated)
}

// run has the agent run a job that prints a log.
func (w *world) run(jobID, log, exit string) {
	w.t.Helper()
	job := w.agent.Acquire(jobID).Start()
	if log != "" {
		print(job, log)
	}
	job.Finish(exit)
}

// print prints the first chunk of a log, and printAt any.
func print(job *servertest.Job, log string) { printAt(job, 1, 0, log) }

func printAt(job *servertest.Job, sequence, offset int, log string) {
	path := job.Path(fmt.Sprintf("/chunks?sequence=%d&offset=%d&size=%d", sequence, offset, len(log)))
	job.With("Content-Type", "text/plain").Post(path, log).Want(http.StatusOK)
}

// build creates a build of one command and has it pass with a log. It returns the build's id.
func (w *world) build(log string) (id string) {
	w.t.Helper()
	b := w.create("make")
	w.run(b.String("jobs.0.id"), log, "0")
	return b.String("id")
}

// pass lets time pass and runs what is due then, which must work.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	if err := w.try(d); err != nil {
		w.t.Fatal(err)
	}
}

// try lets time pass and returns the errors of what is due then.
func (w *world) try(d time.Duration) error {
	w.Clock.Advance(d)
	w.agent.Post("/v3/heartbeat", map[string]any{}).Want(http.StatusOK)
	return w.RunDue(w.t.Context())
}

// folder returns the folder of a build of hello in the bucket.
func (w *world) folder(buildID string) string {
	return "stackyard-exports/acme/" + w.Clock.Now().UTC().Format(time.DateOnly) + "/hello/" + buildID
}

// wantPending fails the test unless that many builds wait to be exported.
func (w *world) wantPending(want int) {
	w.t.Helper()
	var got int
	err := w.DB.Read(w.t.Context(), func(q *db.Q) error { return q.QueryRow(`SELECT COUNT(*) FROM build_exports`).Scan(&got) })
	if err != nil || got != want {
		w.t.Errorf("%d builds wait, want %d; error %v", got, want, err)
	}
}
