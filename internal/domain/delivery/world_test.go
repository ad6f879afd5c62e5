package delivery_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/notifications/notificationstest"
	"stackyard/internal/platform/db"
)

const services = "/v2/organizations/acme/services"

type fields = map[string]any

// A world is a running server, seen by Ada, and a receiver of notifications.
type world struct {
	*servertest.Server
	t        testing.TB
	ada      *servertest.Client
	receiver *receiver
	// workspace is a chat and tracker that services can be connected to, if there is one.
	workspace *notificationstest.Workspace
}

func each(t *testing.T, fn func(t *testing.T, w *world)) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		fn(t, &world{Server: s, t: t, ada: s.As(t, servertest.Ada), receiver: newReceiver(t)})
	})
}

// runDue does what is due, deliveries included.
func (w *world) runDue() {
	w.t.Helper()
	if err := w.RunDue(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// service creates a service that sends to the receiver, and has its ping delivered.
func (w *world) service(provider string, settings fields, more fields) *servertest.Response {
	w.t.Helper()
	body := fields{"provider": provider, "settings": settings}
	for name, value := range more {
		body[name] = value
	}
	created := w.ada.Post(services, body).Want(http.StatusCreated)
	w.runDue()
	return created
}

// webhook creates a webhook for events and forgets its ping.
func (w *world) webhook(names ...string) string {
	w.t.Helper()
	id := w.service("webhook", fields{"url": w.receiver.URL, "events": names}, nil).String("id")
	w.receiver.take()
	return id
}

// build creates a build of hello with steps, each a line of YAML.
func (w *world) build(more fields, steps ...string) *servertest.Response {
	w.t.Helper()
	if len(steps) > 0 {
		configuration := "steps:\n  - " + strings.Join(steps, "\n  - ") + "\n"
		w.ada.Patch(servertest.HelloPath, fields{"configuration": configuration}).Want(http.StatusOK)
	}
	body := fields{"commit": "HEAD", "branch": "main"}
	for name, value := range more {
		body[name] = value
	}
	return w.ada.Post(servertest.HelloPath+"/builds", body).Want(http.StatusCreated)
}

// finish has an agent run the first job of a build.
func (w *world) finish(build *servertest.Response, exit string) {
	w.t.Helper()
	w.Register(w.t, nil).Acquire(build.String("jobs.0.id")).Start().Finish(exit)
}

func (w *world) deliveries(service string) *servertest.Response {
	w.t.Helper()
	return w.ada.Get(services + "/" + service + "/deliveries").Want(http.StatusOK)
}

// A receiver is an HTTP server that keeps what it is sent.
type receiver struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	requests []*request
	response func(r *request) (status int, header http.Header)
}

type request struct {
	http.Header
	Path string
	Body []byte
	t    testing.TB
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, sent *http.Request) {
	body, err := io.ReadAll(sent.Body)
	if err != nil {
		r.t.Error(err)
	}
	got := &request{sent.Header, sent.URL.Path, body, r.t}
	r.mu.Lock()
	r.requests = append(r.requests, got)
	response := r.response
	r.mu.Unlock()
	status, header := http.StatusOK, http.Header{}
	if response != nil {
		status, header = response(got)
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "answer to %s", got.Get("X-Service-Event"))
}

// respondWith sets the status of the following responses.
func (r *receiver) respondWith(status int) {
	r.respond(func(*request) (int, http.Header) { return status, nil })
}

func (r *receiver) respond(response func(r *request) (int, http.Header)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.response = response
}

// take returns what was received since it was called last.
func (r *receiver) take() []*request {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.requests
	r.requests = nil
	return taken
}

// events returns the names of the events that were received since take was called last, in order.
func (r *receiver) events() (names []string) {
	for _, got := range r.take() {
		names = append(names, got.Get("X-Service-Event"))
	}
	return names
}

func (r *receiver) wantEvents(want ...string) {
	r.t.Helper()
	if got := r.events(); !slices.Equal(got, want) {
		r.t.Errorf("received %q, want %q", got, want)
	}
}

// at returns the value at a path of the JSON body.
func (r *request) at(path string) any {
	r.t.Helper()
	var v any
	if err := json.Unmarshal(r.Body, &v); err != nil {
		r.t.Fatalf("%v in %s", err, r.Body)
	}
	for key := range strings.SplitSeq(path, ".") {
		object, ok := v.(map[string]any)
		if !ok {
			r.t.Fatalf("nothing at %q in %.300s", path, r.Body)
		}
		if v, ok = object[key]; !ok {
			r.t.Fatalf("nothing at %q in %.300s", path, r.Body)
		}
	}
	return v
}

func (r *request) want(want fields) {
	r.t.Helper()
	for path, value := range want {
		if got := r.at(path); fmt.Sprint(got) != fmt.Sprint(value) {
			r.t.Errorf("%s: %s is %v, want %v", r.Get("X-Service-Event"), path, got, value)
		}
	}
}

func (r *request) keys() []string {
	r.t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &v); err != nil {
		r.t.Fatal(err)
	}
	keys := []string{}
	for key := range v {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// count returns the number of rows of a table.
func (w *world) count(table string) (n int) {
	w.t.Helper()
	err := w.DB.Read(w.t.Context(), func(q *db.Q) error { return q.QueryRow(`SELECT COUNT(*) FROM ` + table).Scan(&n) })
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
