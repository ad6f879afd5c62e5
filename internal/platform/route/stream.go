package route

import (
	"errors"
	"net/http"
	"reflect"
	"strconv"
)

// A Stream is the result of a handler whose body is not JSON, or too large for memory. Set its headers before
// with SetHeader. The route's Media documents its types.
type Stream struct {
	Status int    // replaces the route's; zero: the route's
	Type   string // the Content-Type
	Size   int64  // of the body, in bytes; -1 when unknown
	// Write writes the body. It is not called for a HEAD request. An error before the first byte is returned as
	// usual; a later one breaks the connection, so that no client takes a part for the whole.
	Write func(w http.ResponseWriter) error
}

// StreamOf is a Stream that is a T when it is JSON.
type StreamOf[T any] struct{ Stream }

func (s StreamOf[T]) schemaType() reflect.Type { return reflect.TypeFor[T]() }

func (s StreamOf[T]) shape(*Request) any { return s.Stream }

// stream writes a stream.
func (s *Server) stream(w *observed, r *Request, status int, v Stream) {
	if v.Status != 0 {
		status = v.Status
	}
	h := w.Header()
	h.Set("Content-Type", v.Type)
	h.Set("X-Content-Type-Options", "nosniff")
	if v.Size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(v.Size, 10))
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(status)
		return
	}
	err := v.Write(&streaming{observed: w, ready: status})
	switch {
	case err == nil && w.status == 0:
		w.WriteHeader(status)
	case err == nil:
	case w.status == 0:
		for _, name := range []string{"Content-Length", "Content-Range", "Content-Disposition", "Cache-Control", "ETag"} {
			h.Del(name)
		}
		s.fail(w, err)
	default:
		if r.Context().Err() == nil { // else the client has disconnected
			s.log.Warn("response truncated", "request_id", w.id, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}

// streaming sends the header with the first byte.
type streaming struct {
	*observed
	ready int
}

func (s *streaming) Write(b []byte) (int, error) {
	if s.observed.status == 0 {
		s.WriteHeader(s.ready)
	}
	return s.observed.Write(b)
}

// FlushError sends what was written so far, and the header before the first byte.
func (s *streaming) FlushError() error {
	if s.observed.status == 0 {
		s.WriteHeader(s.ready)
	}
	return http.NewResponseController(s.observed.ResponseWriter).Flush()
}

// aborted reports whether a handler has panicked to close the connection.
func aborted(panicked any) bool {
	err, ok := panicked.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}
