package core

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Kind says what went wrong in terms of who must act; one place (route) turns kinds into statuses.
type Kind int

// The kinds of errors that reach a person.
const (
	BadRequest    Kind = iota + 1 // the request cannot be understood
	Unauthorized                  // the caller is not known
	Forbidden                     // the caller is known and may not do this
	NotFound                      // no such thing, as far as this caller may know
	Conflict                      // it collides with what exists
	Gone                          // it existed and is past its time
	OutOfRange                    // the range that is asked for holds nothing
	TooLarge                      // the request is larger than this server takes
	TooSlow                       // the request took too long to arrive
	Unprocessable                 // understood, and against a rule
	Locked                        // not yet; what it waits for is not this server
	RateLimited                   // too many requests
	Unavailable                   // not now; try again
)

// Error is an error whose message is written for the person who made the request.
type Error struct {
	Kind    Kind
	Message string
	// Code is the word for the error in a protocol that has such words, as OAuth has.
	Code string
	// Fields holds one entry for each field that broke a rule.
	Fields []FieldError
	// RetryAfter, in whole seconds, accompanies RateLimited and Unavailable.
	RetryAfter int
}

// FieldError says which field broke a rule, and the rule in words.
type FieldError struct {
	Field string `json:"field" doc:"The field, by its name in the request."`
	Code  string `json:"code" doc:"What is wrong with it, in words."`
}

func (e *Error) Error() string {
	if len(e.Fields) == 0 {
		return e.Message
	}
	s := e.Message
	for i, f := range e.Fields {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		s += sep + f.Field + " " + f.Code
	}
	return s
}

// Errorf returns an Error of a kind with a message for the person who made the request.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of the Error in err's chain, or 0 when there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return 0
}

// ValidationFailed is the message of an error that lists fields.
const ValidationFailed = "Validation Failed"

// Problems collects what is wrong with the fields of one request, so that all of it is told at once.
type Problems []FieldError

// Add records that a field broke a rule.
func (p *Problems) Add(field, format string, args ...any) {
	*p = append(*p, FieldError{Field: field, Code: fmt.Sprintf(format, args...)})
}

// Err returns nil when there are no problems, else a "Validation Failed" error with all of them.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return &Error{Kind: Unprocessable, Message: ValidationFailed, Fields: p}
}

// CatchPanic turns a panic of the function that defers it into an error with the stack. It is for work whose
// failure must not end the process.
func CatchPanic(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}
