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

// An Error is a call that failed: the server refused it, or could not be understood or reached.
type Error struct {
	Call    string
	Status  int    // of the answer; 0 when there was none
	Message string // the server's own words
	Err     error  // why there is no answer, or why it cannot be read
	// RetryAfter is when the server wants to be asked again; 0 when it did not say.
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

// Temporary reports whether the same call may succeed later: the server was not reached, not
// understood, or said so.
func (e *Error) Temporary() bool {
	return e.Err != nil || e.Status == http.StatusTooManyRequests || e.Status >= 500
}

// Refused reports whether the server understood a call and refused it for good.
func Refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && !e.Temporary()
}

// StatusOf returns the status that a failed call was answered with, 0 when there was no answer.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// refusal makes an error of an answer that is not a success.
func refusal(call string, resp *http.Response, body []byte) error {
	return &Error{Call: call, Status: resp.StatusCode, Message: message(body), RetryAfter: retryAfter(resp.Header)}
}

// shownBody is how much is shown of an answer that is not what the API answers, such as a proxy's page.
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
