package route

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/limits"
	"stackyard/internal/platform/parked"
	"stackyard/internal/platform/trace"
)

// Config has the dependencies and settings of a Server.
type Config struct {
	Directory *identity.Directory
	// Sessions returns the session of a session token or a job token, or an Unauthorized error.
	Sessions func(ctx context.Context, token string) (*identity.AgentSession, error)
	// Registrations returns the agent token that an agent registers with from an address, and the limits of a
	// job acquisition token, or an Unauthorized error.
	Registrations func(ctx context.Context, token string, from netip.Addr) (*identity.AgentToken, *identity.JobAcquisition, error)
	Public        core.PublicURL
	// Content is the URL of routes that serve content of users, besides Public; empty: none.
	Content core.PublicURL
	Limiter *limits.Limiter
	// RESTLimit returns how many requests per second a user of an organization, nil while it is unknown, can
	// make to Bearer routes that have no limit of their own; 0 is no limit. When it is nil, they have none.
	RESTLimit func(org *identity.Organization) int
	// PathLimits are the limits that responses show below a path, also where there is no route.
	PathLimits map[string]*RateLimit
	Log        *slog.Logger
	Metrics    prometheus.Registerer
	// TrustedProxies are the address ranges whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// Used is called with each access token that was accepted, if it is not nil.
	Used func(tokenID string, from netip.Addr)
	// AccessChanges returns a channel that holds a token when callers may have lost access, until a context
	// ends. When it is nil, streams are not checked again.
	AccessChanges func(ctx context.Context) <-chan struct{}
	// ErrorPage writes an error page for browsers; nil: they get JSON as programs do.
	ErrorPage func(w http.ResponseWriter, status int, message string)
	// Parked is the listener of all requests, to which connections of requests that wait are returned. When it is
	// nil, requests wait on the goroutines of their connections.
	Parked *parked.Listener
}

// Server serves a route table.
type Server struct {
	directory     *identity.Directory
	sessions      func(ctx context.Context, token string) (*identity.AgentSession, error)
	registrations func(ctx context.Context, token string, from netip.Addr) (*identity.AgentToken, *identity.JobAcquisition, error)
	public        core.PublicURL
	contentHost   string // empty: none
	log           *slog.Logger
	limiter       *limits.Limiter
	pathLimits    map[string]*RateLimit
	proxies       []netip.Prefix
	used          func(tokenID string, from netip.Addr)
	errorPage     func(w http.ResponseWriter, status int, message string)
	accessChanges func(ctx context.Context) <-chan struct{}
	parked        *parked.Listener
	measures      measures
	// bodyTimeout is how long a client can take to send a body.
	bodyTimeout time.Duration
	// writeTimeout is how long a client can take to read a response that is in memory.
	writeTimeout time.Duration
	muxes        map[string]*http.ServeMux // by the first path segment; "" for paths that begin with a wildcard
	routes       []Route
}

// New returns a server of a route table. It panics when the table is inconsistent, as a mux does.
func New(c Config, routes []Route) *Server {
	s := &Server{
		directory:     c.Directory,
		sessions:      c.Sessions,
		registrations: c.Registrations,
		public:        c.Public,
		contentHost:   c.Content.Host(),
		log:           c.Log,
		limiter:       c.Limiter,
		pathLimits:    c.PathLimits,
		proxies:       c.TrustedProxies,
		used:          c.Used,
		errorPage:     c.ErrorPage,
		accessChanges: c.AccessChanges,
		parked:        c.Parked,
		measures:      newMeasures(c.Metrics),
		muxes:         map[string]*http.ServeMux{"": http.NewServeMux()},
		bodyTimeout:   bodyTimeout,
		writeTimeout:  writeTimeout,
		routes:        routes,
	}
	methods := make(map[string]map[string]*Route) // by path, by method
	for i := range routes {
		r := &routes[i]
		r.check(c.RESTLimit)
		if methods[r.Path] == nil {
			methods[r.Path] = make(map[string]*Route)
		}
		if methods[r.Path][r.Method] != nil {
			panic(fmt.Sprintf("route: %s %s is declared twice", r.Method, r.Path))
		}
		methods[r.Path][r.Method] = r
	}
	for path, byMethod := range methods {
		first := firstSegment(path)
		if strings.HasPrefix(first, "{") {
			first = ""
		}
		if s.muxes[first] == nil {
			s.muxes[first] = http.NewServeMux()
		}
		s.muxes[first].Handle(path, s.endpoint(path, byMethod))
	}
	for first, mux := range s.muxes {
		if first != "" || methods["/"] == nil {
			mux.HandleFunc("/", s.notFound)
		}
	}
	return s
}

// check panics when a route lacks required fields.
func (r *Route) check(rest func(*identity.Organization) int) {
	switch {
	case r.Auth == Bearer && r.Scope == "":
		panic(fmt.Sprintf("route: %s %s names no scope", r.Method, r.Path))
	case r.Handler.serve == nil && r.Handler.raw == nil && r.Handler.visit == nil:
		panic(fmt.Sprintf("route: %s %s has no handler", r.Method, r.Path))
	}
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	if r.Limit == nil && r.Auth == Bearer && rest != nil {
		r.Limit = &RateLimit{Scope: "rest", PerSecond: rest}
	}
}

func firstSegment(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first
}

// ServeHTTP serves a request. It accepts doubled and trailing slashes in the path.
func (s *Server) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	seen := s.measures.begin(w, hr)
	if ctx, span := trace.Request(hr); span != nil {
		hr, seen.span = hr.WithContext(ctx), span
	}
	defer func() {
		if !seen.parked {
			s.finish(seen)
		}
	}()
	// The deadline of an earlier response on the same connection does not apply.
	seen.setWriteDeadline(time.Time{})
	if p := seen.path; p == "/v2" || strings.HasPrefix(p, "/v2/") {
		allowAnyOrigin(seen.Header())
	}
	hr = withTidyPath(hr)
	s.showPathLimit(seen.Header(), hr.URL.Path)
	mux := s.muxes[firstSegment(hr.URL.Path)]
	if mux == nil {
		mux = s.muxes[""]
	}
	if !storable(hr.URL.Path) {
		s.notFound(seen, hr)
		return
	}
	mux.ServeHTTP(seen, hr)
}

// notFound serves paths that no route has.
func (s *Server) notFound(w http.ResponseWriter, hr *http.Request) {
	if seen, ok := w.(*observed); ok { // not one that only looks for a route
		s.fail(seen, core.Errorf(core.NotFound, "Not Found: there is nothing at %s", hr.URL.Path))
	}
}

// storable reports whether a database can store a text. Other texts match nothing, and would be a database
// error in a query.
func storable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// tidy collapses doubled slashes, removes a trailing one and resolves dots.
func tidy(path string) string {
	var segments []string
	for s := range strings.SplitSeq(path, "/") {
		switch s {
		case "", ".":
		case "..":
			segments = segments[:max(0, len(segments)-1)]
		default:
			segments = append(segments, s)
		}
	}
	return "/" + strings.Join(segments, "/")
}

// withTidyPath returns the request with a tidy path.
func withTidyPath(hr *http.Request) *http.Request {
	if p := hr.URL.Path; hr.URL.RawPath == "" && !strings.Contains(p, "//") && !strings.Contains(p, "/.") && !strings.HasSuffix(p, "/") && p != "" {
		return hr // as almost always
	}
	escaped := tidy(hr.URL.EscapedPath())
	if escaped == hr.URL.EscapedPath() {
		return hr
	}
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return hr
	}
	u := *hr.URL
	u.Path, u.RawPath = path, escaped
	hr = hr.WithContext(hr.Context())
	hr.URL = &u
	return hr
}

func allowAnyOrigin(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Link, Accept-Ranges, Content-Range, RateLimit-Scope, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id")
}

// endpoint serves every method of one path.
func (s *Server) endpoint(path string, methods map[string]*Route) http.Handler {
	var allowed []string
	for m := range methods {
		allowed = append(allowed, m)
		if m == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	allow := strings.Join(append(slices.Compact(allowed), http.MethodOptions), ", ")
	oauth := slices.ContainsFunc(slices.Collect(maps.Values(methods)), func(r *Route) bool { return r.OAuth })
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		if l, ok := w.(*lookup); ok {
			l.route, l.request = methods[hr.Method], hr
			return
		}
		seen := w.(*observed)
		seen.pattern = path
		if oauth {
			seen.setOAuthHeaders()
		}
		route := methods[hr.Method]
		if route == nil && hr.Method == http.MethodHead {
			route = methods[http.MethodGet]
		}
		switch {
		case s.contentHost != "" && strings.EqualFold(hr.Host, s.contentHost) && (route == nil || !route.Content):
			s.fail(seen, core.Errorf(core.NotFound, "Not Found: only artifacts are served at %s", s.contentHost))
		case route != nil:
			s.serve(seen, hr, route)
		case hr.Method == http.MethodOptions:
			h := w.Header()
			h.Set("Allow", allow)
			h.Set("Access-Control-Allow-Methods", allow)
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
			h.Set("Access-Control-Max-Age", "86400")
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("Allow", allow)
			s.writeError(seen, http.StatusMethodNotAllowed, &core.Error{Message: fmt.Sprintf("%s is not possible here; %s are", hr.Method, allow)})
		}
	})
}

// serve runs the checks and the handler of a route.
func (s *Server) serve(w *observed, hr *http.Request, route *Route) {
	if route.Handler.raw != nil {
		route.Handler.raw(w, hr)
		return
	}
	r := &Request{Request: hr, Address: s.clientAddress(hr), route: route, server: s, w: w}
	if route.recorded() {
		r.Request = hr.WithContext(audit.With(hr.Context(), r))
	}
	defer func() {
		if p := recover(); aborted(p) {
			panic(p)
		} else if p != nil {
			s.log.Error("panic", "request_id", w.id, "panic", p, "stack", string(debug.Stack()))
			s.fail(w, errors.New("panic"))
		}
	}()
	if visit := route.Handler.visit; visit != nil {
		if err := visit(w, r); err != nil {
			s.fail(w, err)
		}
		w.caller(r)
		return
	}
	if err := s.admit(r); err != nil {
		s.fail(w, err)
		return
	}
	w.caller(r)
	result, err := route.Handler.serve(r)
	if err != nil {
		s.fail(w, route.withFieldNames(err))
		return
	}
	status := route.Status
	if m, ok := result.(made); ok && m.isNew() {
		status = http.StatusCreated
	}
	if sh, ok := result.(shaped); ok {
		result = sh.shape(r)
	}
	switch v := result.(type) {
	case Nothing:
		w.WriteHeader(status)
		return
	case plainText:
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		io.WriteString(w, string(v))
		return
	case Stream:
		s.stream(w, r, status, v)
		return
	case encodedJSON:
		s.writeJSON(w, status, v)
		return
	case held:
		s.serveHeld(w, r, status, v)
		return
	}
	s.write(w, status, result)
}

// maxReasons is how many fields the message of an error names; its list has all of them.
const maxReasons = 10

// withFieldNames returns an error whose message names the invalid fields, because many clients show only the message.
func (r *Route) withFieldNames(err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || len(e.Fields) == 0 || e.Message != core.ValidationFailed || r.PlainValidation {
		return err
	}
	worded := *e
	worded.Fields = e.Fields[:min(len(e.Fields), maxReasons)]
	worded.Message = worded.Error()
	if more := len(e.Fields) - len(worded.Fields); more > 0 {
		worded.Message += fmt.Sprintf(", and %d more", more)
	}
	worded.Fields = e.Fields
	return &worded
}

type shaped interface{ shape(r *Request) any }

// made is a result that reports whether it is new.
type made interface{ isNew() bool }

// Routes returns the route table of the server.
func (s *Server) Routes() []Route { return s.routes }
