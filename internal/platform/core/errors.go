package core

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Kind is the class of an error; package route maps kinds to statuses.
type Kind int

// The kinds of errors with a message for the caller.
const (
	BadRequest    Kind = iota + 1 // the request cannot be understood
	Unauthorized                  // the caller is unknown
	Forbidden                     // the caller is known and not allowed to do this
	NotFound                      // it does not exist, as far as this caller can know
	Conflict                      // it conflicts with something that exists
	Gone                          // it existed and has expired
	OutOfRange                    // the requested range is empty
	TooLarge                      // the request is too large
	TooSlow                       // the request took too long to arrive
	Unprocessable                 // the request is understood and violates a rule
	Locked                        // not yet; it waits for something outside of this server
	RateLimited                   // too many requests
	Unavailable                   // not now; retry
)

// Error is an error with a message for the caller.
type Error struct {
	Kind    Kind
	Message string
	// Code is the error code in a protocol that has codes, like OAuth.
	Code string
	// Fields has one entry for each invalid field.
	Fields []FieldError
	// RetryAfter, in whole seconds, accompanies RateLimited and Unavailable.
	RetryAfter int
}

// FieldError names an invalid field and the rule that it violates.
type FieldError struct {
	Field string `json:"field" doc:"The field, by its name in the request."`
	Code  string `json:"code" doc:"What is wrong with it."`
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

// Errorf returns an Error of a kind with a message for the caller.
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

// Problems collects the invalid fields of one request, so that the response lists all of them.
type Problems []FieldError

// Add adds an invalid field.
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

// CatchPanic converts a panic of the function that defers it into an error with the stack, for work whose failure
// must not end the process.
func CatchPanic(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
	}
}
