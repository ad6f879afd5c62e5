package stacks_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

// limitHeaders are the headers of every response.
var limitHeaders = []string{"RateLimit-Scope", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}

func wantLimit(t *testing.T, r *servertest.Response, scope string, limit, remaining int) {
	t.Helper()
	for i, want := range []any{scope, limit, remaining, 1} {
		wantEqual(t, fmt.Sprint(r.Status, " ", limitHeaders[i]), r.Header.Get(limitHeaders[i]), want)
	}
}

func TestLimits_AreToldWithEveryResponse(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		w.reserve(id).Want(http.StatusOK)
		for _, c := range []struct {
			method, path string
			body         any
			scope        string
			limit        int
			status       int
		}{
			{"POST", "/v3/stacks/register", registration("robot"), "default", 10, http.StatusOK},
			{"POST", "/v3/stacks/register", registration("another"), "default", 10, http.StatusCreated},
			{"POST", "/v3/stacks/register", fields{"key": "bad"}, "default", 10, http.StatusUnprocessableEntity},
			{"GET", robot + "/scheduled-jobs?queue_key=default", nil, "list-scheduled-jobs", 10, http.StatusOK},
			{"GET", robot + "/scheduled-jobs?queue_key=default&limit=x", nil, "list-scheduled-jobs", 10, http.StatusBadRequest},
			{"GET", robot + "/scheduled-jobs?queue_key=nowhere", nil, "list-scheduled-jobs", 10, http.StatusNotFound},
			{"PUT", robot + "/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{}}, "batch-reserve", 10, http.StatusOK},
			{"PUT", robot + "/scheduled-jobs/batch-reserve", fields{"job_uuids": 1}, "batch-reserve", 10, http.StatusBadRequest},
			{"PUT", robot + "/scheduled-jobs/batch-reserve", "{", "batch-reserve", 10, http.StatusBadRequest},
			{"POST", robot + "/job-acquisition-tokens", fields{"job_uuids": []string{}}, "default", 10, http.StatusCreated},
			{"GET", robot + "/jobs/" + id, nil, "show-job", 1000, http.StatusOK},
			{"GET", robot + "/jobs/" + core.NewID(), nil, "show-job", 1000, http.StatusNotFound},
			{"POST", robot + "/jobs/get-states", fields{"job_uuids": []string{}}, "batch-load-job-states", 20, http.StatusOK},
			{"POST", robot + "/jobs/" + id + "/finish", fields{}, "finish-job", 100, http.StatusUnprocessableEntity},
			{"POST", robot + "/jobs/" + id + "/finish", fields{"detail": "done"}, "finish-job", 100, http.StatusOK},
			{"POST", robot + "/notifications", fields{"notifications": []any{}}, "stack-notification", 200, http.StatusOK},
			{"POST", robot + "/notifications", fields{}, "stack-notification", 200, http.StatusUnprocessableEntity},
			{"POST", "/v3/stacks/nobody/deregister", nil, "default", 10, http.StatusNotFound},
			{"POST", robot + "/deregister", nil, "default", 10, http.StatusNoContent},
		} {
			w.Clock.Advance(time.Second)
			wantLimit(t, w.stack.Do(c.method, c.path, c.body).Want(c.status), c.scope, c.limit, c.limit-1)
			stranger := w.AsAgent(t, "svcct_nobody").Do(c.method, c.path, c.body).Want(http.StatusUnauthorized)
			wantLimit(t, stranger, c.scope, c.limit, c.limit)
		}
		wantLimit(t, w.stack.Post("/v3/stacks/register", "{").Want(http.StatusBadRequest), "default", 10, 9)
		w.Apply("organizations: [{slug: acme, suspended: true, limits: {stack_requests_per_second: {default: 7}}}]")
		suspended := w.register("robot").Want(http.StatusServiceUnavailable)
		wantLimit(t, suspended, "default", 7, 7)
		if suspended.Header.Get("Retry-After") == "" {
			t.Error("a suspended organization does not say when to try again")
		}
	})
}

// Responses below /v3/stacks that come from no endpoint have the headers too.
func TestLimits_AreToldForUnknownPathsAndMethods(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			method, path string
			status       int
		}{
			{"GET", "/v3/stacks", http.StatusNotFound},
			{"GET", "/v3//stacks/", http.StatusNotFound},
			{"GET", robot, http.StatusNotFound},
			{"GET", robot + "/nowhere", http.StatusNotFound},
			{"GET", robot + "/%00", http.StatusNotFound},
			{"GET", robot + "/jobs/x/y/z", http.StatusNotFound},
			{"DELETE", "/v3/stacks/register", http.StatusMethodNotAllowed},
			{"POST", robot + "/scheduled-jobs", http.StatusMethodNotAllowed},
			{"GET", robot + "/deregister", http.StatusMethodNotAllowed},
			{"OPTIONS", robot + "/deregister", http.StatusNoContent},
		} {
			wantLimit(t, w.stack.Do(c.method, c.path, nil).Want(c.status), "default", 10, 10)
		}
		if other := w.stack.Get("/v3/nowhere").Want(http.StatusNotFound); other.Header.Get("RateLimit-Scope") != "" {
			t.Errorf("a path that is none of the stacks API has the scope %s", other.Header.Get("RateLimit-Scope"))
		}
	})
}

// Header names are case-insensitive, but people and scripts read them as sent.
func TestLimits_AreSpelledAsTheSpecificationDoes(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, path := range []string{robot + "/jobs/" + core.NewID(), robot + "/nowhere", "/v2/user"} {
			connection, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: ci.test\r\nConnection: close\r\n\r\n", path)
			response, err := io.ReadAll(connection)
			connection.Close()
			if err != nil {
				t.Fatal(err)
			}
			head, _, _ := strings.Cut(string(response), "\r\n\r\n")
			for _, name := range limitHeaders {
				if strings.Count(head, "\r\n"+name+": ") != 1 || strings.Count(strings.ToLower(head), strings.ToLower(name)+": ") != 1 {
					t.Errorf("%s: %s is not sent once and as such:\n%s", path, name, head)
				}
			}
		}
	})
}

func TestLimits_AreSharedByEndpointsOfAScope(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Clock.Advance(time.Second)
		wantLimit(t, w.register("robot"), "default", 10, 9)
		tokens := robot + "/job-acquisition-tokens"
		for left := 8; left >= 1; left-- {
			wantLimit(t, w.stack.Post(tokens, fields{"job_uuids": []string{}}).Want(http.StatusCreated), "default", 10, left)
		}
		wantLimit(t, w.stack.Post(robot+"/deregister", nil).Want(http.StatusNoContent), "default", 10, 0)
		for _, r := range []*servertest.Response{w.register("robot"), w.stack.Post(robot+"/deregister", nil), w.stack.Post(tokens, nil)} {
			wantLimit(t, r.Want(http.StatusTooManyRequests), "default", 10, 0)
		}
		wantLimit(t, w.register("other").Want(http.StatusCreated), "default", 10, 9)
		w.stack.Post("/v3/stacks/other/deregister", nil).Want(http.StatusNoContent)
	})
}

func TestLimits_HoldForAllReplicasTogether(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if !w.DB.Shared() {
			t.Skip("one process serves the database")
		}
		replicas := []*servertest.Client{w.stack, w.Replica(t).AsAgent(t, servertest.AcmeAgent)}
		w.ada.Patch(hello, fields{"configuration": "steps: [{command: make}]"}).Want(http.StatusOK)
		id := w.schedule(1)[0]
		for _, c := range []struct {
			method, path string
			body         any
			scope        string
			limit        int
		}{
			{"GET", robot + "/scheduled-jobs?queue_key=default", nil, "list-scheduled-jobs", 10},
			{"PUT", robot + "/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{}}, "batch-reserve", 10},
			{"POST", robot + "/job-acquisition-tokens", fields{"job_uuids": []string{}}, "default", 10},
			{"POST", robot + "/jobs/get-states", fields{"job_uuids": []string{}}, "batch-load-job-states", 20},
			{"POST", robot + "/jobs/" + id + "/finish", fields{}, "finish-job", 100},
			{"POST", robot + "/notifications", fields{"notifications": []any{}}, "stack-notification", 200},
		} {
			w.Clock.Advance(10 * time.Second)
			through := 0
			for i := range 2*c.limit + 4 { // all within one second
				r := replicas[i%2].Do(c.method, c.path, c.body)
				if r.Status != http.StatusTooManyRequests {
					through++
					wantEqual(t, "scope", r.Header.Get("RateLimit-Scope"), c.scope)
					continue
				}
				wantLimit(t, r, c.scope, c.limit, 0)
				wantEqual(t, "current", r.At("current"), c.limit)
			}
			if least := c.limit * 9 / 10; through > c.limit || through < least {
				t.Errorf("%s: %d requests in a second, and the limit is %d", c.scope, through, c.limit)
			}
		}
	})
}

func TestLimits_AreCountedByScopeAndStack(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.register("other").Want(http.StatusCreated)
		w.Clock.Advance(time.Second)
		var last *servertest.Response
		for range 10 {
			last = w.stack.Get(robot + "/scheduled-jobs?queue_key=default").Want(http.StatusOK)
		}
		wantEqual(t, "remaining", last.Header.Get("RateLimit-Remaining"), "0")
		refused := w.stack.Get(robot + "/scheduled-jobs?queue_key=default").Want(http.StatusTooManyRequests)
		for path, want := range map[string]any{"scope": "list-scheduled-jobs", "limit": 10, "current": 10, "reset": 1} {
			wantEqual(t, path, refused.At(path), want)
		}
		wantEqual(t, "retry after", refused.Header.Get("Retry-After"), "1")
		w.stack.Get("/v3/stacks/other/scheduled-jobs?queue_key=default").Want(http.StatusOK)
		w.stack.Put(robot+"/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{}}).Want(http.StatusOK)
		w.Apply("organizations: [{slug: acme, limits: {stack_requests_per_second: {list-scheduled-jobs: 11}}}]")
		w.stack.Get(robot + "/scheduled-jobs?queue_key=default").Want(http.StatusOK)
	})
}
