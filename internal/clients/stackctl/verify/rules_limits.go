package verify

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The headers about rate limits.
const (
	headerScope     = "RateLimit-Scope"
	headerLimit     = "RateLimit-Limit"
	headerRemaining = "RateLimit-Remaining"
	headerReset     = "RateLimit-Reset"
)

// headersSeen is what was wrong with the headers of answers, whatever these were about.
type headersSeen struct {
	missing *answer // the first without one of the headers
	what    string  // which header that lacks
	astray  *answer // the first with another scope than its endpoint's
	scope   string  // which that should have had
}

func (h *headersSeen) note(e endpoint, a *answer) {
	for _, name := range []string{headerLimit, headerRemaining, headerReset} {
		if _, err := strconv.Atoi(a.header.Get(name)); err != nil && h.missing == nil {
			h.missing, h.what = a, name+", an integer"
		}
	}
	if got := a.header.Get(headerScope); got == "" && h.missing == nil {
		h.missing, h.what = a, headerScope
	} else if got != "" && got != e.scope && h.astray == nil {
		h.astray, h.scope = a, e.scope
	}
}

// callAll calls every endpoint once.
func (t *trial) callAll() {
	key := t.newStack()
	for _, e := range append(keyedEndpoints[1:], deregister) {
		t.call(e, key, unknownJob(), e.example(unknownJob()))
	}
}

var limits = Section{"Rate limits", []Rule{
	{"limits.headers", "Every answer has the headers RateLimit-Scope, -Limit, -Remaining and -Reset.", func(t *trial) {
		t.callAll()
		if a := t.seen.missing; a != nil {
			t.fail(a, "the header "+t.seen.what, "none")
		}
	}},
	{"limits.unknown", "Answers about unknown paths and methods below /v3/stacks have the headers too, with the scope default.", func(t *trial) {
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
	{"limits.scopes", "RateLimit-Scope is the scope of the endpoint.", func(t *trial) {
		t.callAll()
		if a := t.seen.astray; a != nil {
			t.fail(a, "the scope "+t.seen.scope, a.header.Get(headerScope))
		}
	}},
	{"limits.defaults", "Unless the organization has limits of its own, they are those of the protocol.", func(t *trial) {
		key := t.newStack()
		for _, e := range keyedEndpoints[1:] {
			a := t.call(e, key, unknownJob(), e.example(unknownJob()))
			if limit := a.header.Get(headerLimit); limit != strconv.Itoa(e.perSecond) {
				t.skip("the organization has a limit of its own: %s is %s instead of %d", e.scope, limit, e.perSecond)
			}
		}
	}},
	{"limits.remaining", "RateLimit-Remaining tells how many calls are left, and each call takes one.", func(t *trial) {
		t.takesOne(func(key string) (first, second *answer) {
			return t.list(key, t.Queue), t.list(key, t.Queue)
		})
	}},
	{"limits.exceeded", "A call beyond the limit is 429 with message, scope, limit, current and reset.", func(t *trial) {
		a := t.exceed(t.newStack())
		t.has(a, "", shape{"message": text, "scope": text, "limit": integer, "current": integer, "reset": integer})
		t.is(a, "scope", scheduledJobs.scope)
		t.is(a, "limit", seconds(a.header.Get(headerLimit)))
	}},
	{"limits.retry-after", "429 has the header Retry-After, in whole seconds.", func(t *trial) {
		a := t.exceed(t.newStack())
		t.want(a, seconds(a.header.Get("Retry-After")) > 0, "Retry-After, a number of seconds", "%q", a.header.Get("Retry-After"))
	}},
	{"limits.window", "After as many seconds as RateLimit-Reset says, calls are answered again.", func(t *trial) {
		key := t.newStack()
		a := t.exceed(key)
		t.server.sleep(t.ctx, max(1, seconds(a.header.Get(headerReset))))
		t.status(t.burst(key), http.StatusOK)
	}},
	{"limits.scope-alone", "One scope that is used up leaves the others alone.", func(t *trial) {
		key := t.newStack()
		t.exceed(key)
		t.status(t.call(batchReserve, key, "", batchReserve.example(unknownJob())), http.StatusOK)
	}},
	{"limits.stack-alone", "One stack that has used up a scope leaves the other stacks alone.", func(t *trial) {
		key, other := t.newStack(), t.newStack()
		t.exceed(key)
		t.status(t.burst(other), http.StatusOK)
	}},
	{"limits.shared", "Endpoints with the same scope share one limit: de-register and tokens.", func(t *trial) {
		t.takesOne(func(key string) (first, second *answer) {
			return t.call(issueTokens, key, "", issueTokens.example(unknownJob())), t.deregister(key)
		})
	}},
}}

// takesOne makes two calls with a stack, and wants the second to take one of what is left after the first.
func (t *trial) takesOne(calls func(key string) (first, second *answer)) {
	// Where it takes a while, the first is out of the window when the second is counted, and it is tried again.
	for range 5 {
		key := t.newStack()
		t.server.sleep(t.ctx, 1) // so that the registration is out of the window
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

// window is that of the protocol.
const window = time.Second

// burst lists a queue without regard to the limit.
func (t *trial) burst(key string) *answer {
	a, err := t.server.sendOnce(t.ctx, t.request(scheduledJobs, key, "", nil))
	if err != nil {
		t.fail(nil, "an answer", err.Error())
	}
	t.seen.note(scheduledJobs, a)
	return a
}

// mostBurst is the highest limit that is tried out.
const mostBurst = 100

// exceed lists a queue more often at the same time than the limit allows, and returns an answer that refuses.
func (t *trial) exceed(key string) *answer {
	first := t.burst(key)
	limit := seconds(first.header.Get(headerLimit))
	if limit > mostBurst {
		t.skip("the organization's limit of %s is %d, which is more than is tried out", scheduledJobs.scope, limit)
	}
	r := t.request(scheduledJobs, key, "", nil)
	r.limit = "" // it is to be exceeded
	answers := make([]*answer, max(limit, scheduledJobs.perSecond)+5)
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
