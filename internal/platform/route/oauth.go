package route

import (
	"net/http"
	"strconv"

	"stackyard/internal/platform/core"
)

// oauthErrorView is the body of every error of an OAuth endpoint (RFC 6749, 5.2).
type oauthErrorView struct {
	Error            string `json:"error" doc:"The error code of RFC 6749 or RFC 8628."`
	ErrorDescription string `json:"error_description,omitempty" doc:"What went wrong, for the developer of the client."`
}

// setOAuthHeaders sets the headers of an OAuth response.
func (o *observed) setOAuthHeaders() {
	o.oauth = true
	o.Header().Set("Cache-Control", "no-store")
	o.Header().Set("Pragma", "no-cache")
}

// writeOAuthError writes an OAuth error. OAuth has one code for all errors of the server.
func (s *Server) writeOAuthError(w http.ResponseWriter, status int, why *core.Error) {
	view := oauthErrorView{Error: why.Code, ErrorDescription: why.Message}
	switch {
	case status >= 500:
		status, view.Error = http.StatusServiceUnavailable, "server_error"
		w.Header().Set("Retry-After", strconv.Itoa(max(why.RetryAfter, 1)))
	case status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="Stackyard"`)
	case view.Error == "":
		view.Error = "invalid_request"
	}
	s.write(w, status, view)
}
