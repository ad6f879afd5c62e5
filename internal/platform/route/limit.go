package route

import (
	"net/http"
	"strconv"
	"strings"

	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/limits"
)

// A RateLimit bounds how often callers can use a route.
type RateLimit struct {
	// Scope names the limit in headers and errors.
	Scope string
	// PerSecond returns the number of requests per second that one caller can make; 0 is no limit. org is nil
	// while it is unknown.
	PerSecond func(org *identity.Organization) int
	// Segment is the path segment that names the caller. On a route without it, the handler calls
	// [Request.Count] with the name that it finds in the body.
	Segment string
	// Key returns the key under which the requests of the caller with a name are counted; the name is ""
	// when the body cannot be read.
	Key func(r *Request, name string) string
}

// limit counts a request against the rate limit of its route, if it has one.
func (s *Server) limit(r *Request) error {
	switch l := r.route.Limit; {
	case l == nil:
		return nil
	case l.Key != nil:
		if name := r.PathValue(l.Segment); name != "" {
			return r.Count(name)
		}
		return nil // the body has the name
	case r.Caller == nil || r.limitOf() == 0:
		return nil
	}
	org := ""
	if r.Org != nil {
		org = r.Org.ID
	}
	return r.take(org + " " + r.Caller.User.ID)
}

// Count counts a request of the caller with a name against the rate limit of the route. Handlers call it when
// the body, not the path, has the name.
func (r *Request) Count(name string) error { return r.take(r.route.Limit.Key(r, name)) }

// countUnread counts a request whose body should have named the caller, but cannot be read.
func (r *Request) countUnread() error {
	if l := r.route.Limit; l == nil || l.Key == nil || r.PathValue(l.Segment) != "" {
		return nil
	}
	return r.Count("")
}

func (r *Request) take(key string) error {
	r.Usage = r.server.limiter.Take(r.Context(), key, r.limitOf())
	r.showUsage(r.Usage)
	if r.Usage.Refused {
		return &limitError{scope: r.route.Limit.Scope, Usage: r.Usage}
	}
	return nil
}

// limitOf returns the limit of the route in requests per second; 0 is no limit.
func (r *Request) limitOf() int { return r.route.Limit.PerSecond(r.Org) }

// showLimit sets the rate-limit headers of a request that was not counted.
func (r *Request) showLimit() {
	if r.route.Limit != nil {
		r.showUsage(limits.Unused(r.limitOf()))
	}
}

// showUsage sets the rate-limit headers, unless there is no limit.
func (r *Request) showUsage(u limits.Usage) {
	r.limitShown = true
	setLimitHeaders(r.w.Header(), r.route.Limit.Scope, u)
}

// showPathLimit sets the rate-limit headers of a response below one of the paths of [Config.PathLimits], until a
// route sets its own. So paths and methods that no route has have them too.
func (s *Server) showPathLimit(h http.Header, path string) {
	for prefix, l := range s.pathLimits {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			setLimitHeaders(h, l.Scope, limits.Unused(l.PerSecond(nil)))
		}
	}
}

// setLimitHeaders sets the rate-limit headers, or removes them without a limit. Their names are spelled as in
// the specification; http.Header.Set would change them to Ratelimit-….
func setLimitHeaders(h http.Header, scope string, u limits.Usage) {
	if u.Limit == 0 {
		for _, name := range []string{"RateLimit-Scope", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
			delete(h, name)
		}
		return
	}
	h["RateLimit-Scope"] = []string{scope}
	h["RateLimit-Limit"] = []string{strconv.Itoa(u.Limit)}
	h["RateLimit-Remaining"] = []string{strconv.Itoa(u.Remaining())}
	h["RateLimit-Reset"] = []string{strconv.Itoa(u.Reset)}
}

type limitError struct {
	scope string
	limits.Usage
}

func (e *limitError) Error() string { return "rate limit exceeded" }

// limitView is the body of a 429 response.
type limitView struct {
	Message string `json:"message"`
	Scope   string `json:"scope"`
	Limit   int    `json:"limit"`
	Current int    `json:"current"`
	Reset   int    `json:"reset" doc:"Seconds until the window resets."`
}
