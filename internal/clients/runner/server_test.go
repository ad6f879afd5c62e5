package runner_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/clients/runner"
	"stackyard/internal/clients/runner/api"
)

// waitLimit is how long a test waits for something that should happen soon.
const waitLimit = 30 * time.Second

// A fakeServer is a server with one job. Tests use it for responses that a real server rarely sends, and to run
// jobs.
type fakeServer struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	calls   []string             // as METHOD path, without the job's id
	answer  map[string][]respond // responses to calls before the normal ones
	action  string               // of pings
	job     map[string]any       // response of accept and acquire
	offers  int                  // how often pings offer the job
	state   string               // of the job
	chunks  map[int]string       // of the log, by offset
	result  *api.Result
	data    map[string]string // meta-data
	secret  map[string]string
	files   map[string]string // bytes of artifacts by path
	states  []api.ArtifactState
	push    chan []byte // messages of the stream; nil if there is none
	changed chan struct{}
}

// A respond is one response; status 0 breaks the connection.
type respond struct {
	status int
	body   string
}

const jobID = "0190c0de-0000-7000-8000-00000000000a"

func newFakeServer(t *testing.T, env map[string]string) *fakeServer {
	s := &fakeServer{t: t, answer: map[string][]respond{}, offers: 1, state: "running", chunks: map[int]string{}, data: map[string]string{}, secret: map[string]string{}, files: map[string]string{}, changed: make(chan struct{}, 1)}
	all := map[string]string{
		"SERVICE_ORGANIZATION_SLUG": "acme", "SERVICE_PIPELINE_SLUG": "hello", "SERVICE_BUILD_ID": "b",
		"SERVICE_REPO": "https://git.example.test/acme/hello.git", "SERVICE_COMMIT": "HEAD", "SERVICE_BRANCH": "main", "SERVICE_PULL_REQUEST": "false",
	}
	maps.Copy(all, env)
	s.job = map[string]any{"id": jobID, "env": all, "token": "job-token", "chunks_max_size_bytes": 1000, "chunks_interval_seconds": 1}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *fakeServer) serve(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + strings.Replace(strings.TrimPrefix(r.URL.Path, "/v3"), "/jobs/"+jobID, "/J", 1)
	body, _ := io.ReadAll(r.Body)
	if s.push != nil && r.URL.Path == streamPath {
		s.stream(w, r)
		return
	}
	if call == "GET /J/sessions" { // at any time while a job runs
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.notify()
	s.calls = append(s.calls, call)
	if answers := s.answer[call]; len(answers) > 0 {
		s.answer[call] = answers[1:]
		if answers[0].status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(answers[0].status)
		io.WriteString(w, answers[0].body)
		return
	}
	s.respondNormally(w, r, call, body)
}

const streamPath = "/agentedge.v1.AgentEdgeService/StreamPings"

// The messages of the stream.
var (
	resume      = []byte{0x12, 0}
	pause       = []byte{0x1a, 0}
	goAway      = []byte{0x22, 0}
	jobAssigned = append([]byte{0x2a, 40, 0x0a, 38, 0x0a, 36}, jobID...)
)

// stream pushes messages until an empty one, which ends it as unavailable.
func (s *fakeServer) stream(w http.ResponseWriter, r *http.Request) {
	s.change(func() { s.calls = append(s.calls, "stream") })
	s.notify()
	w.Header().Set("Content-Type", "application/grpc+proto")
	w.Header().Set("Trailer", "Grpc-Status")
	for message := resume; len(message) > 0; {
		w.Write(append([]byte{0, 0, 0, 0, byte(len(message))}, message...))
		http.NewResponseController(w).Flush()
		select {
		case message = <-s.push:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Grpc-Status", "14")
}

func (s *fakeServer) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// respondNormally handles calls without failures.
func (s *fakeServer) respondNormally(w http.ResponseWriter, r *http.Request, call string, body []byte) {
	var answer any = map[string]any{}
	switch call {
	case "POST /register":
		answer = map[string]any{"id": "agent-1", "name": "worker", "access_token": "session", "ping_interval": 1, "job_status_interval": 1, "heartbeat_interval": 1}
	case "GET /ping":
		if s.offers > 0 && s.action == "" {
			s.offers--
			answer = map[string]any{"job": map[string]string{"id": jobID}}
		} else {
			answer = map[string]any{"action": s.action}
		}
	case "PUT /J/accept", "PUT /J/acquire":
		answer = s.job
	case "GET /J":
		answer = map[string]any{"state": s.state}
	case "POST /J/chunks":
		s.takeChunk(r, body)
	case "PUT /J/finish":
		s.result = &api.Result{}
		s.decode(body, s.result)
	case "POST /J/data/exists":
		var item api.MetaDatum
		s.decode(body, &item)
		_, ok := s.data[item.Key]
		answer = map[string]any{"exists": ok}
	case "POST /J/data/set":
		var item api.MetaDatum
		s.decode(body, &item)
		s.data[item.Key] = item.Value
	case "GET /J/secrets":
		value, ok := s.secret[r.URL.Query().Get("key")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		answer = map[string]any{"value": value}
	case "POST /J/artifacts":
		answer = s.createArtifacts(body)
	case "PUT /J/artifacts":
		var update struct{ Artifacts []api.ArtifactState }
		s.decode(body, &update)
		s.states = append(s.states, update.Artifacts...)
	case "POST /upload":
		s.takeFile(r, body)
	case "POST /connect", "POST /disconnect", "POST /heartbeat", "PUT /J/start":
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	json.NewEncoder(w).Encode(answer)
}

func (s *fakeServer) decode(body []byte, v any) {
	if err := json.Unmarshal(body, v); err != nil {
		s.t.Errorf("%v in %s", err, body)
	}
}

func (s *fakeServer) takeChunk(r *http.Request, body []byte) {
	zip, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		s.t.Error(err)
	}
	offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
	s.chunks[offset] = string(text)
}

func (s *fakeServer) createArtifacts(body []byte) any {
	var create struct{ Artifacts []api.Artifact }
	s.decode(body, &create)
	ids := []string{}
	for _, a := range create.Artifacts {
		ids = append(ids, "artifact "+a.Path)
	}
	return map[string]any{"artifact_ids": ids, "upload_instructions": map[string]any{
		"action": map[string]any{"url": s.URL + "/replaced?signature=x", "method": "POST", "path": "/upload", "file_input": "file"},
		"data":   map[string]string{"key": "files/${artifact:path}"},
	}}
}

func (s *fakeServer) takeFile(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Header.Get("Authorization") != "" || r.URL.Query().Get("signature") != "x" || r.ContentLength < 0 {
		s.t.Errorf("upload with the headers %v and the query %s", r.Header, r.URL.RawQuery)
	}
	file, _, err := r.FormFile("file")
	if err != nil {
		s.t.Error(err)
		return
	}
	text, _ := io.ReadAll(file)
	s.files[r.FormValue("key")] = string(text)
}

// respondFirst sets the responses to a call before the normal ones.
func (s *fakeServer) respondFirst(call string, answers ...respond) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer[call] = answers
}

// change modifies the server's state.
func (s *fakeServer) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// called returns how often a call was made.
func (s *fakeServer) called(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.calls), func(c string) bool { return c != call }))
}

// await waits until a condition holds.
func (s *fakeServer) await(what string, so func() bool) {
	s.t.Helper()
	timeout := time.After(waitLimit)
	for !so() {
		select {
		case <-s.changed:
		case <-timeout:
			s.t.Fatalf("not within %s: %s; calls %q; log %q", waitLimit, what, s.calls, s.raw())
		}
	}
}

func (s *fakeServer) awaitLog(text string) {
	s.t.Helper()
	s.await("the log has "+text, func() bool { return strings.Contains(s.log(), text) })
}

// raw returns the log as sent.
func (s *fakeServer) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var log strings.Builder
	for _, offset := range slices.Sorted(maps.Keys(s.chunks)) {
		if offset != log.Len() {
			break // a chunk is missing
		}
		log.WriteString(s.chunks[offset])
	}
	return log.String()
}

var escapes = regexp.MustCompile("\x1b_bk;t=[0-9]+\a|\x1b\\[[0-9;]*m")

// log returns the log without escape sequences.
func (s *fakeServer) log() string {
	return strings.ReplaceAll(escapes.ReplaceAllString(s.raw(), ""), "\r\n", "\n")
}

// An agent is a running agent.
type agent struct {
	drain func() // the first signal
	stop  func() // the second
	ended chan error
}

// start starts an agent.
func (s *fakeServer) start(with ...func(*runner.Options)) *agent {
	s.t.Helper()
	executable, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	o := runner.Options{
		Endpoint: s.URL + "/v3", Token: "agent-token", Version: "test", Spawn: 1, BuildPath: s.t.TempDir(),
		Shell: []string{"/bin/bash", "-e", "-c"}, CancelGrace: 10 * time.Second, Executable: executable,
		Log: slog.New(slog.NewTextHandler(s.t.Output(), nil)),
	}
	for _, set := range with {
		set(&o)
	}
	drain, first := context.WithCancel(context.Background())
	ctx, second := context.WithCancel(context.Background())
	a := &agent{drain: first, stop: func() { first(); second() }, ended: make(chan error, 1)}
	go func() { a.ended <- runner.Run(ctx, drain, o) }()
	s.t.Cleanup(func() {
		a.stop()
		a.wait(s.t)
	})
	return a
}

// wait waits until the agent has ended.
func (a *agent) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-a.ended:
		a.ended <- err
		return err
	case <-time.After(waitLimit):
		t.Fatal("the agent does not end")
	}
	panic("unreachable")
}

func onlyOneJob(o *runner.Options) { o.DisconnectAfterJob = true }

func acquiring(o *runner.Options) { o.AcquireJob = jobID }

// runJob runs the job with a new agent and returns its result.
func (s *fakeServer) runJob(with ...func(*runner.Options)) api.Result {
	s.t.Helper()
	if err := s.start(append(with, onlyOneJob)...).wait(s.t); err != nil {
		s.t.Fatalf("the agent ended with %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result == nil {
		s.t.Fatalf("the job was not finished; calls %q", s.calls)
	}
	return *s.result
}

// wantResult checks the result of a job.
func wantResult(t *testing.T, got api.Result, status, signal, reason string) {
	t.Helper()
	if got.ExitStatus != status || got.Signal != signal || got.SignalReason != reason {
		t.Errorf("the job ended with status %s, signal %q, reason %q; want %s, %q, %q", got.ExitStatus, got.Signal, got.SignalReason, status, signal, reason)
	}
}
