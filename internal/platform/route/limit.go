package route

import (
	"net/http"
	"strconv"
	"strings"

	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/limits"
)

// longestStackKey is how long the key of a stack can be, in bytes.
const longestStackKey = 80

// limit counts a request against the limit of its route's scope, if it has one.
func (s *Server) limit(r *Request) error {
	switch {
	case r.route.Limit == "":
		return nil
	case r.Agent != nil:
		if key := r.PathValue("stack"); key != "" {
			return r.LimitStack(key)
		}
		return nil // the body names the stack
	case r.Caller == nil || r.limitOf() == 0:
		return nil
	}
	org := ""
	if r.Org != nil {
		org = r.Org.ID
	}
	return r.take(org + " " + r.Caller.User.ID)
}

// LimitStack counts a call of a stack against the limit of the route's scope. Handlers call it where the
// path does not name the stack, because the body does. Calls whose key no stack can have are counted
// together, so that nobody can make the server remember long texts.
func (r *Request) LimitStack(key string) error {
	if len(key) > longestStackKey {
		key = ""
	}
	return r.take("stack " + r.Org.ID + " " + r.Agent.ClusterID + " " + key + " " + r.route.Limit)
}

// limitUnread counts a call whose body should have named the stack, but cannot be read.
func (r *Request) limitUnread() error {
	if r.route.Auth != Agent || r.route.Limit == "" || r.PathValue("stack") != "" {
		return nil
	}
	return r.LimitStack("")
}

func (r *Request) take(key string) error {
	r.Standing = r.server.limiter.Take(r.Context(), key, r.limitOf())
	r.showStanding(r.Standing)
	if r.Standing.Refused {
		return &limitError{scope: r.route.Limit, Standing: r.Standing}
	}
	return nil
}

// limitOf is how many requests a second the route's scope allows, as far as it is known whose it is; 0 is
// no limit.
func (r *Request) limitOf() int {
	set := identity.DefaultLimits
	if r.Org != nil {
		set = r.Org.Limits
	}
	if r.route.Auth == Agent {
		return set.OfStacks(r.route.Limit)
	}
	return set.RESTRequestsPerSecond
}

// showLimit tells the caller what the limit is, before anything is counted: every response says it,
// whatever the request fails for.
func (r *Request) showLimit() {
	if r.route.Limit != "" {
		r.showStanding(limits.Untouched(r.limitOf()))
	}
}

// showStanding tells the caller where it stands, unless there is no limit.
func (r *Request) showStanding(s limits.Standing) { setLimitHeaders(r.w.Header(), r.route.Limit, s) }

// stacksPath is where the stacks API is. All of its responses have the headers about rate limits, also those
// about paths and methods that no route has.
const stacksPath = "/v3/stacks"

// showStacksLimit sets the headers of a response below stacksPath, until a route sets its own.
func showStacksLimit(h http.Header, path string) {
	if path == stacksPath || strings.HasPrefix(path, stacksPath+"/") {
		const scope = "default"
		setLimitHeaders(h, scope, limits.Untouched(identity.DefaultLimits.OfStacks(scope)))
	}
}

// setLimitHeaders sets the headers about rate limits, or removes them where there is no limit. Their names are
// spelled as the specification does, which http.Header.Set would change to Ratelimit-….
func setLimitHeaders(h http.Header, scope string, s limits.Standing) {
	if s.Limit == 0 {
		for _, name := range []string{"RateLimit-Scope", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
			delete(h, name)
		}
		return
	}
	h["RateLimit-Scope"] = []string{scope}
	h["RateLimit-Limit"] = []string{strconv.Itoa(s.Limit)}
	h["RateLimit-Remaining"] = []string{strconv.Itoa(s.Remaining())}
	h["RateLimit-Reset"] = []string{strconv.Itoa(s.Reset)}
}

type limitError struct {
	scope string
	limits.Standing
}

func (e *limitError) Error() string { return "rate limit exceeded" }

// limitView is the body of a 429 answer.
type limitView struct {
	Message string `json:"message"`
	Scope   string `json:"scope"`
	Limit   int    `json:"limit"`
	Current int    `json:"current"`
	Reset   int    `json:"reset" doc:"Seconds until the window resets."`
}
