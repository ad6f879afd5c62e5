// Package cmdline has what the commands of the program share: exit statuses, arguments, settings from flags, variables
// and files, and secrets that jobs must not see.
package cmdline

import "fmt"

// Exit statuses.
const (
	ExitFailed  = 1  // runtime error
	ExitUsage   = 2  // invalid arguments, settings or files
	ExitRefused = 27 // the server refuses the job of an agent
)

// Version is the version of the program.
var Version = "dev"

// UserAgent returns the User-Agent header of requests.
func UserAgent() string { return "stackyard/" + Version }

// StatusError is an error with an exit status.
type StatusError struct {
	Status int
	Err    error // nil: another program has reported it
}

func (e *StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

func (e *StatusError) Unwrap() error { return e.Err }

// UsageError is an error in how the program was called.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Usage marks err as an error in arguments, settings or a file, for the exit status. A missing file counts too.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}
