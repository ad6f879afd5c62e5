package route

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/platform/core"
)

// errorView is the body of every error response.
type errorView struct {
	Message string            `json:"message"`
	Errors  []core.FieldError `json:"errors,omitempty"`
}

// statuses is the only place that maps error kinds to statuses.
var statuses = map[core.Kind]int{
	core.BadRequest:    http.StatusBadRequest,
	core.Unauthorized:  http.StatusUnauthorized,
	core.Forbidden:     http.StatusForbidden,
	core.NotFound:      http.StatusNotFound,
	core.Conflict:      http.StatusConflict,
	core.Gone:          http.StatusGone,
	core.OutOfRange:    http.StatusRequestedRangeNotSatisfiable,
	core.TooLarge:      http.StatusRequestEntityTooLarge,
	core.TooSlow:       http.StatusRequestTimeout,
	core.Unprocessable: http.StatusUnprocessableEntity,
	core.Locked:        http.StatusLocked,
	core.RateLimited:   http.StatusTooManyRequests,
	core.Unavailable:   http.StatusServiceUnavailable,
}

// statusClientGone is the status in logs and metrics of a request whose client disconnected before the
// response. nginx uses it; no standard has one.
const statusClientGone = 499

// fail writes an error: the message for the caller, the cause for the log.
func (s *Server) fail(w *observed, err error) {
	if limit, ok := errors.AsType[*limitError](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(limit.Reset))
		if w.browser && s.errorPage != nil {
			s.errorPage(w, http.StatusTooManyRequests, fmt.Sprintf("The limit of requests is reached. Try again in %d seconds.", max(limit.Reset, 1)))
			return
		}
		s.write(w, http.StatusTooManyRequests, limitView{
			Message: "You have exceeded your rate limit; try again later",
			Scope:   limit.scope,
			Limit:   limit.Limit,
			Current: limit.Current,
			Reset:   limit.Reset,
		})
		return
	}
	e, ok := errors.AsType[*core.Error](err)
	if w.ctx.Err() != nil && (!ok || e.Kind == core.Unavailable) {
		s.log.Debug("client went away", "request_id", w.id, "error", err)
		s.writeError(w, statusClientGone, &core.Error{Message: "The request was canceled"})
		return
	}
	if !ok {
		s.log.Error("request failed", "request_id", w.id, "error", err)
		s.writeError(w, http.StatusInternalServerError, &core.Error{Message: "Something went wrong on the server. Its log has the reason under the request id " + w.id})
		return
	}
	if e.Kind == core.Unavailable {
		s.log.Warn("request refused", "request_id", w.id, "error", err)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	s.writeError(w, statuses[e.Kind], e)
}

// writeError writes an error as a page for browsers, and as JSON for programs.
func (s *Server) writeError(w *observed, status int, why *core.Error) {
	switch {
	case w.oauth:
		s.writeOAuthError(w, status, why)
	case w.browser && s.errorPage != nil:
		s.errorPage(w, status, why.Message)
	default:
		s.write(w, status, errorView{Message: why.Message, Errors: why.Fields})
	}
}

// isBrowser reports whether a person probably reads the response: the client accepts HTML, and the path is not
// an API.
func isBrowser(hr *http.Request) bool {
	switch firstSegment(hr.URL.Path) {
	case "v1", "v2", "v3":
		return false
	}
	return strings.Contains(hr.Header.Get("Accept"), "text/html")
}

// writeTimeout is how long a client can take to read a response that is in memory: a client that stops reading
// must not keep it forever.
const writeTimeout = time.Minute

// write writes a value as JSON.
func (s *Server) write(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.log.Error("encode response failed", "error", err)
		status, body = http.StatusInternalServerError, []byte(`{"message":"Something went wrong on the server"}`)
	}
	s.writeJSON(w, status, append(body, '\n'))
}

// Values of headers that many responses share. Nothing changes them.
var (
	jsonBody = []string{"application/json; charset=utf-8"}
	noSniff  = []string{"nosniff"}
)

// writeJSON writes encoded JSON.
func (s *Server) writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonBody
	h["X-Content-Type-Options"] = noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	deadline := time.Now().Add(s.writeTimeout)
	if seen, ok := w.(*observed); ok {
		seen.setWriteDeadline(deadline)
	} else {
		http.NewResponseController(w).SetWriteDeadline(deadline)
	}
	w.WriteHeader(status)
	w.Write(body)
}
