package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// An endpoint is a call of the stacks API.
type endpoint struct {
	method string
	path   string // :key is the key of a stack, :id the id of a job
	// scope is the rate limit scope, perSecond its default limit.
	scope     string
	perSecond int
}

// The endpoints.
var (
	register       = endpoint{http.MethodPost, "/stacks/register", "default", 10}
	deregister     = endpoint{http.MethodPost, "/stacks/:key/deregister", "default", 10}
	scheduledJobs  = endpoint{http.MethodGet, "/stacks/:key/scheduled-jobs", "list-scheduled-jobs", 10}
	batchReserve   = endpoint{http.MethodPut, "/stacks/:key/scheduled-jobs/batch-reserve", "batch-reserve", 10}
	issueTokens    = endpoint{http.MethodPost, "/stacks/:key/job-acquisition-tokens", "default", 10}
	getJob         = endpoint{http.MethodGet, "/stacks/:key/jobs/:id", "show-job", 1000}
	getStates      = endpoint{http.MethodPost, "/stacks/:key/jobs/get-states", "batch-load-job-states", 20}
	finishJob      = endpoint{http.MethodPost, "/stacks/:key/jobs/:id/finish", "finish-job", 100}
	notifyPeople   = endpoint{http.MethodPost, "/stacks/:key/notifications", "stack-notification", 200}
	keyedEndpoints = []endpoint{deregister, scheduledJobs, batchReserve, issueTokens, getJob, getStates, finishJob, notifyPeople}
	endpoints      = append([]endpoint{register}, keyedEndpoints...)
)

// fields is a JSON object to send.
type fields = map[string]any

// example returns a valid body for the endpoint, for a job.
func (e endpoint) example(job string) any {
	switch e {
	case batchReserve, issueTokens, getStates:
		return fields{"job_uuids": []string{job}}
	case finishJob:
		return fields{"detail": "A check of the protocol"}
	case notifyPeople:
		return fields{"notifications": []any{fields{"job_uuid": job, "detail": "A check of the protocol"}}}
	}
	return nil
}

// query returns the required query of the endpoint, for a queue.
func (e endpoint) query(queue string) string {
	if e == scheduledJobs {
		return "?" + url.Values{"queue_key": {queue}}.Encode()
	}
	return ""
}

func newSuite(ctx context.Context, c Config) *suite {
	if c.Queue == "" {
		c.Queue = defaultQueue
	}
	return &suite{Config: c, ctx: ctx, server: newServer(c), suffix: strings.ToLower(rand.Text()[:8]), stacks: map[string]bool{}}
}

// defaultQueue is the protocol's name for a cluster's default queue.
const defaultQueue = "__default__"

// name returns a unique name.
func (k *suite) name() string {
	k.names++
	return "verify-" + k.suffix + "-" + strconv.Itoa(k.names)
}

// unknownJob returns the UUID of a job that does not exist.
func unknownJob() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// request returns the request of an endpoint for a stack and a job.
func (k *suite) request(e endpoint, key, job string, body any) request {
	path := strings.NewReplacer(":key", url.PathEscape(key), ":id", url.PathEscape(job)).Replace(e.path)
	return request{
		method: e.method, url: k.server.agentURL + path + e.query(k.Queue), auth: "Token " + k.Token,
		body: body, limit: key + " " + e.scope,
	}
}

// call calls an endpoint for a stack and, if the endpoint needs one, a job.
func (t *checker) call(e endpoint, key, job string, body any) *response {
	return t.send(e, t.request(e, key, job, body))
}

// send calls an endpoint and records the response headers.
func (t *checker) send(e endpoint, r request) *response {
	a, err := t.server.send(t.ctx, r)
	if err != nil {
		t.fail(nil, "an answer to "+r.method+" "+e.path, err.Error())
	}
	t.seen.note(e, a)
	return a
}

// registration returns the body that registers a stack.
func (t *checker) registration(key string) fields {
	return fields{"key": key, "type": "custom", "queue_key": t.Queue, "metadata": fields{"program": "stackyard stack verify"}}
}

// register registers a stack and records it for de-registration.
func (t *checker) register(body fields) *response {
	key, _ := body["key"].(string)
	a := t.call(register, key, "", body)
	if a.ok() {
		t.stacks[key] = true
	}
	return a
}

// newStack registers another stack and returns its key. Other rules check the response.
func (t *checker) newStack() string {
	key := t.name()
	a := t.register(t.registration(key))
	t.want(a, a.ok(), "the stack to be registered", "status %d", a.status)
	return key
}

// stack returns the key of the stack that most rules use.
func (t *checker) stack() string {
	if t.main == "" {
		t.main = t.newStack()
	}
	return t.main
}

// deregister de-registers a stack.
func (t *checker) deregister(key string) *response {
	a := t.call(deregister, key, "", nil)
	if a.ok() {
		delete(t.stacks, key)
	}
	return a
}

// list lists a queue, with more parameters as name, value pairs.
func (t *checker) list(key, queue string, more ...string) *response {
	query := url.Values{"queue_key": {queue}}
	for i := 0; i < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	r := t.request(scheduledJobs, key, "", nil)
	r.url, _, _ = strings.Cut(r.url, "?")
	r.url += "?" + query.Encode()
	return t.send(scheduledJobs, r)
}

// cleanUp deletes everything that the run created, the latest first, and returns what is left.
func (k *suite) cleanUp() error {
	var all []cleanup
	for _, session := range k.agents {
		all = append(all, cleanup{what: "an agent", request: request{method: http.MethodPost, url: k.server.agentURL + "/disconnect", auth: "Token " + session}})
	}
	for key := range k.stacks {
		all = append(all, cleanup{what: "the stack " + key, request: k.request(deregister, key, "", nil)})
	}
	slices.Reverse(k.cleanups)
	var left []error
	for _, u := range append(all, k.cleanups...) {
		a, err := k.server.send(k.ctx, u.request)
		switch {
		case err != nil:
			left = append(left, fmt.Errorf("%s may be left behind: %w", u.what, err))
		case !a.ok() && a.status != http.StatusNotFound && !u.optional:
			left = append(left, fmt.Errorf("%s is left behind: the server answered %d %s", u.what, a.status, a.text("message")))
		}
	}
	return errors.Join(left...)
}
