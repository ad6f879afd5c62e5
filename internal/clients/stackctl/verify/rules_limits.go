package verify

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The rate limit headers.
const (
	headerScope     = "RateLimit-Scope"
	headerLimit     = "RateLimit-Limit"
	headerRemaining = "RateLimit-Remaining"
	headerReset     = "RateLimit-Reset"
)

// headersSeen records wrong headers of all responses.
type headersSeen struct {
	missing    *response // the first response without one of the headers
	what       string    // the missing header
	wrongScope *response // the first response with a scope other than its endpoint's
	scope      string    // the expected scope
}

func (h *headersSeen) note(e endpoint, a *response) {
	for _, name := range []string{headerLimit, headerRemaining, headerReset} {
		if _, err := strconv.Atoi(a.header.Get(name)); err != nil && h.missing == nil {
			h.missing, h.what = a, name+", an integer"
		}
	}
	if got := a.header.Get(headerScope); got == "" && h.missing == nil {
		h.missing, h.what = a, headerScope
	} else if got != "" && got != e.scope && h.wrongScope == nil {
		h.wrongScope, h.scope = a, e.scope
	}
}

// callAll calls every endpoint once.
func (t *checker) callAll() {
	key := t.newStack()
	for _, e := range append(keyedEndpoints[1:], deregister) {
		t.call(e, key, unknownJob(), e.example(unknownJob()))
	}
}

var limits = Section{"Rate limits", []Rule{
	{"limits.headers", "Every response has the headers RateLimit-Scope, -Limit, -Remaining and -Reset.", func(t *checker) {
		t.callAll()
		if a := t.seen.missing; a != nil {
			t.fail(a, "the header "+t.seen.what, "none")
		}
	}},
	{"limits.unknown", "Responses for unknown paths and methods below /v3/stacks also have the headers, with the scope default.", func(t *checker) {
		for _, r := range []request{
			{method: http.MethodGet, url: t.server.agentURL + "/stacks/" + t.stack() + "/nowhere"},
			{method: http.MethodDelete, url: t.server.agentURL + "/stacks/register"},
		} {
			r.auth = "Token " + t.Token
			a, err := t.server.send(t.ctx, r)
			if err != nil {
				t.fail(nil, "an answer to "+r.method+" "+r.url, err.Error())
			}
			t.want(a, a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed, "status 404 or 405", "status %d", a.status)
			t.want(a, a.header.Get(headerScope) == "default", headerScope+": default", "%q", a.header.Get(headerScope))
			for _, name := range []string{headerLimit, headerRemaining, headerReset} {
				t.want(a, a.header.Get(name) != "", "the header "+name, "none")
			}
		}
	}},
	{"limits.scopes", "RateLimit-Scope is the scope of the endpoint.", func(t *checker) {
		t.callAll()
		if a := t.seen.wrongScope; a != nil {
			t.fail(a, "the scope "+t.seen.scope, a.header.Get(headerScope))
		}
	}},
	{"limits.defaults", "Unless the organization has its own limits, the limits of the protocol apply.", func(t *checker) {
		key := t.newStack()
		for _, e := range keyedEndpoints[1:] {
			a := t.call(e, key, unknownJob(), e.example(unknownJob()))
			if limit := a.header.Get(headerLimit); limit != strconv.Itoa(e.perSecond) {
				t.skip("the organization has a limit of its own: %s is %s instead of %d", e.scope, limit, e.perSecond)
			}
		}
	}},
	{"limits.remaining", "RateLimit-Remaining is the number of remaining calls, and decreases by one with each call.", func(t *checker) {
		t.takesOne(func(key string) (first, second *response) {
			return t.list(key, t.Queue), t.list(key, t.Queue)
		})
	}},
	{"limits.exceeded", "A call beyond the limit returns 429 with message, scope, limit, current and reset.", func(t *checker) {
		a := t.exceed(t.newStack())
		t.has(a, "", shape{"message": text, "scope": text, "limit": integer, "current": integer, "reset": integer})
		t.is(a, "scope", scheduledJobs.scope)
		t.is(a, "limit", seconds(a.header.Get(headerLimit)))
	}},
	{"limits.retry-after", "A 429 response has the header Retry-After, in whole seconds.", func(t *checker) {
		a := t.exceed(t.newStack())
		t.want(a, seconds(a.header.Get("Retry-After")) > 0, "Retry-After, a number of seconds", "%q", a.header.Get("Retry-After"))
	}},
	{"limits.window", "After the seconds of RateLimit-Reset, calls succeed again.", func(t *checker) {
		key := t.newStack()
		a := t.exceed(key)
		t.server.sleep(t.ctx, max(1, seconds(a.header.Get(headerReset))))
		t.status(t.burst(key), http.StatusOK)
	}},
	{"limits.scope-alone", "An exhausted scope does not affect other scopes.", func(t *checker) {
		key := t.newStack()
		t.exceed(key)
		t.status(t.call(batchReserve, key, "", batchReserve.example(unknownJob())), http.StatusOK)
	}},
	{"limits.stack-alone", "A stack that has exhausted a scope does not affect other stacks.", func(t *checker) {
		key, other := t.newStack(), t.newStack()
		t.exceed(key)
		t.status(t.burst(other), http.StatusOK)
	}},
	{"limits.shared", "Endpoints with the same scope share one limit: de-register and tokens.", func(t *checker) {
		t.takesOne(func(key string) (first, second *response) {
			return t.call(issueTokens, key, "", issueTokens.example(unknownJob())), t.deregister(key)
		})
	}},
}}

// takesOne makes two calls with a stack, and expects that the second reduces the remaining calls by one.
func (t *checker) takesOne(calls func(key string) (first, second *response)) {
	// On a slow server the first call is out of the window when the second is counted; try again.
	for range 5 {
		key := t.newStack()
		t.server.sleep(t.ctx, 1) // wait until the registration is out of the window
		begun := time.Now()
		first, second := calls(key)
		was, is := seconds(first.header.Get(headerRemaining)), seconds(second.header.Get(headerRemaining))
		if is == was-1 {
			return
		}
		if time.Since(begun) < window {
			t.fail(second, headerRemaining+": "+strconv.Itoa(was-1), strconv.Itoa(is))
		}
	}
	t.skip("the calls take longer than the window in which they are counted")
}

// window is the protocol's rate limit window.
const window = time.Second

// burst lists a queue regardless of the limit.
func (t *checker) burst(key string) *response {
	a, err := t.server.sendOnce(t.ctx, t.request(scheduledJobs, key, "", nil))
	if err != nil {
		t.fail(nil, "an answer", err.Error())
	}
	t.seen.note(scheduledJobs, a)
	return a
}

// maxBurst is the highest limit that is tested.
const maxBurst = 100

// exceed lists a queue more often than the limit allows, concurrently, and returns a refused response.
func (t *checker) exceed(key string) *response {
	first := t.burst(key)
	limit := seconds(first.header.Get(headerLimit))
	if limit > maxBurst {
		t.skip("the organization's limit of %s is %d, which is more than is tried out", scheduledJobs.scope, limit)
	}
	r := t.request(scheduledJobs, key, "", nil)
	r.limit = "" // exceed it on purpose
	answers := make([]*response, max(limit, scheduledJobs.perSecond)+5)
	var calls sync.WaitGroup
	for i := range answers {
		calls.Go(func() { answers[i], _ = t.server.sendOnce(t.ctx, r) })
	}
	calls.Wait()
	for _, a := range answers {
		if a != nil && a.status == http.StatusTooManyRequests {
			t.seen.note(scheduledJobs, a)
			return a
		}
	}
	t.fail(first, fmt.Sprintf("429 when more than %d calls come within a second", limit), "no such answer")
	return nil
}
