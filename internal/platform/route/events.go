package route

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// EventType is the Content-Type of server-sent events.
const EventType = "text/event-stream"

const (
	// eventTimeout is how long a reader may take for one event.
	eventTimeout = 30 * time.Second
	// eventRetry is how long a reader waits before it comes back, perhaps to another replica.
	eventRetry = time.Second
)

// Events writes server-sent events, each of which reaches its reader at once. An error says that the reader
// has gone, or does not read.
type Events struct {
	w          http.ResponseWriter
	connection *http.ResponseController
}

// SetEventHeaders keeps caches from keeping events, and proxies from waiting for more of them.
func SetEventHeaders(h http.Header) {
	h.Set("Content-Type", EventType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
}

// NewEvents begins a stream of events. End is to be called after the last one.
func NewEvents(w http.ResponseWriter) (*Events, error) {
	e := &Events{w: w, connection: http.NewResponseController(w)}
	return e, e.write("retry: %d\n\n", eventRetry.Milliseconds())
}

// End leaves the connection as it was, for the next request on it.
func (e *Events) End() { e.connection.SetWriteDeadline(time.Time{}) }

// Send sends an event with data as JSON. A reader that comes back says which event it had last by its id;
// an empty one leaves that as it is.
func (e *Events) Send(name, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return e.write("%sevent: %s\ndata: %s\n\n", id, name, text)
}

// Idle shows the reader, and all between, that the stream is alive.
func (e *Events) Idle() error { return e.write(": nothing new\n\n") }

func (e *Events) write(format string, args ...any) error {
	e.connection.SetWriteDeadline(time.Now().Add(eventTimeout))
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.connection.Flush()
}
