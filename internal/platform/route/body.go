package route

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"stackyard/internal/platform/core"
)

// OpenBody returns the body for a handler that parses it while it arrives. Reading fails with TooLarge after most
// bytes, and with TooSlow when the body has not arrived within a time.
func (r *Request) OpenBody(most int64, timeout time.Duration) io.Reader {
	connection := http.NewResponseController(r.w)
	connection.SetReadDeadline(time.Now().Add(timeout)) // what cannot have a deadline cannot be slow
	return &openBody{body: http.MaxBytesReader(r.w, r.Body, most), connection: connection, timeout: timeout}
}

type openBody struct {
	body       io.Reader
	connection *http.ResponseController
	timeout    time.Duration
}

func (b *openBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		// The deadline stays after any other error, and ends the connection.
		b.connection.SetReadDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = core.Errorf(core.TooSlow, "The request body did not arrive within %s", b.timeout)
	default:
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return n, core.Errorf(core.TooLarge, "The request body is larger than %d bytes", tooLarge.Limit)
		}
		err = core.Errorf(core.BadRequest, "The request body could not be read")
	}
	return n, err
}
