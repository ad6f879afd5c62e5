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
	path   string // :key is a stack's key, :id a job's
	// scope is the rate-limit scope, and perSecond the limit that it has unless the server says otherwise.
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

// fields is a JSON object that is sent.
type fields = map[string]any

// example returns a body with which the endpoint can be called, about a job.
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

// query is what the endpoint needs in its query, for a queue.
func (e endpoint) query(queue string) string {
	if e == scheduledJobs {
		return "?" + url.Values{"queue_key": {queue}}.Encode()
	}
	return ""
}

func newKit(ctx context.Context, c Config) *kit {
	if c.Queue == "" {
		c.Queue = defaultQueue
	}
	return &kit{Config: c, ctx: ctx, server: newServer(c), suffix: strings.ToLower(rand.Text()[:8]), stacks: map[string]bool{}}
}

// defaultQueue is the protocol's word for a cluster's default queue.
const defaultQueue = "__default__"

// name returns a name that nothing else has.
func (k *kit) name() string {
	k.names++
	return "verify-" + k.suffix + "-" + strconv.Itoa(k.names)
}

// unknownJob is a UUID that no job has.
func unknownJob() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// request makes the request of an endpoint for a stack and a job.
func (k *kit) request(e endpoint, key, job string, body any) request {
	path := strings.NewReplacer(":key", url.PathEscape(key), ":id", url.PathEscape(job)).Replace(e.path)
	return request{
		method: e.method, url: k.server.agentURL + path + e.query(k.Queue), auth: "Token " + k.Token,
		body: body, limit: key + " " + e.scope,
	}
}

// call calls an endpoint for a stack, and a job where the endpoint is about one.
func (t *trial) call(e endpoint, key, job string, body any) *answer {
	return t.send(e, t.request(e, key, job, body))
}

// send makes a call of an endpoint, and notes what its headers say.
func (t *trial) send(e endpoint, r request) *answer {
	a, err := t.server.send(t.ctx, r)
	if err != nil {
		t.fail(nil, "an answer to "+r.method+" "+e.path, err.Error())
	}
	t.seen.note(e, a)
	return a
}

// registration returns the body that registers a stack.
func (t *trial) registration(key string) fields {
	return fields{"key": key, "type": "custom", "queue_key": t.Queue, "metadata": fields{"program": "stackyard stack verify"}}
}

// register registers a stack with a body, and remembers to de-register it.
func (t *trial) register(body fields) *answer {
	key, _ := body["key"].(string)
	a := t.call(register, key, "", body)
	if a.ok() {
		t.stacks[key] = true
	}
	return a
}

// newStack registers one more stack and returns its key. What exactly the server answers is not its
// business; other rules look at that.
func (t *trial) newStack() string {
	key := t.name()
	a := t.register(t.registration(key))
	t.want(a, a.ok(), "the stack to be registered", "status %d", a.status)
	return key
}

// stack returns the key of the stack that most rules use.
func (t *trial) stack() string {
	if t.main == "" {
		t.main = t.newStack()
	}
	return t.main
}

// deregister de-registers a stack.
func (t *trial) deregister(key string) *answer {
	a := t.call(deregister, key, "", nil)
	if a.ok() {
		delete(t.stacks, key)
	}
	return a
}

// list lists a queue with more parameters, as name and value in turn.
func (t *trial) list(key, queue string, more ...string) *answer {
	query := url.Values{"queue_key": {queue}}
	for i := 0; i < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	r := t.request(scheduledJobs, key, "", nil)
	r.url, _, _ = strings.Cut(r.url, "?")
	r.url += "?" + query.Encode()
	return t.send(scheduledJobs, r)
}

// cleanUp takes down all that the run has made, the latest first, and says what is left.
func (k *kit) cleanUp() error {
	var all []undoing
	for _, session := range k.agents {
		all = append(all, undoing{what: "an agent", request: request{method: http.MethodPost, url: k.server.agentURL + "/disconnect", auth: "Token " + session}})
	}
	for key := range k.stacks {
		all = append(all, undoing{what: "the stack " + key, request: k.request(deregister, key, "", nil)})
	}
	slices.Reverse(k.undoings)
	var left []error
	for _, u := range append(all, k.undoings...) {
		a, err := k.server.send(k.ctx, u.request)
		switch {
		case err != nil:
			left = append(left, fmt.Errorf("%s may be left behind: %w", u.what, err))
		case !a.ok() && a.status != http.StatusNotFound && !u.superfluous:
			left = append(left, fmt.Errorf("%s is left behind: the server answered %d %s", u.what, a.status, a.text("message")))
		}
	}
	return errors.Join(left...)
}
