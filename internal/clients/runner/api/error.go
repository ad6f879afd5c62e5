package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// An Error is a failed call: the server refused it, was not reached, or sent an invalid response.
type Error struct {
	Call    string
	Status  int    // of the response; 0 without one
	Message string // from the server
	Err     error  // why there is no valid response
	// RetryAfter is the delay that the server requested, or 0.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("%s: %v", e.Call, e.Err)
	case e.Message != "":
		return fmt.Sprintf("%s: %s (status %d)", e.Call, e.Message, e.Status)
	default:
		return fmt.Sprintf("%s: status %d", e.Call, e.Status)
	}
}

func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether a retry may succeed: the server was not reached, sent an invalid response, or
// reported a temporary failure.
func (e *Error) Temporary() bool {
	return e.Err != nil || e.Status == http.StatusTooManyRequests || e.Status >= 500
}

// Refused reports whether the server permanently refused a call.
func Refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && !e.Temporary()
}

// StatusOf returns the status of a failed call, or 0 if there was no response.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// refusal returns the error for a response that is not a success.
func refusal(call string, resp *http.Response, body []byte) error {
	return &Error{Call: call, Status: resp.StatusCode, Message: message(body), RetryAfter: retryAfter(resp.Header)}
}

// shownBody is how many bytes are shown of a response that is not from the API, for example a proxy's page.
const shownBody = 512

func message(body []byte) string {
	var answer struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Message != "" {
		return answer.Message
	}
	text := strings.TrimSpace(string(body))
	if len(text) <= shownBody {
		return text
	}
	text = text[:shownBody]
	for !utf8.ValidString(text) && len(text) > shownBody-utf8.UTFMax {
		text = text[:len(text)-1]
	}
	return text + "…"
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
