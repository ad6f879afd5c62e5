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
	// eventTimeout is how long a reader can take for one event.
	eventTimeout = 30 * time.Second
	// eventRetry is how long a reader waits before it reconnects, perhaps to another replica.
	eventRetry = time.Second
)

// Events writes server-sent events and flushes each. An error means that the reader disconnected, or does not
// read.
type Events struct {
	w          http.ResponseWriter
	connection *http.ResponseController
}

// SetEventHeaders disables caching and buffering by proxies.
func SetEventHeaders(h http.Header) {
	h.Set("Content-Type", EventType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
}

// NewEvents starts a stream of events. Call End after the last one.
func NewEvents(w http.ResponseWriter) (*Events, error) {
	e := &Events{w: w, connection: http.NewResponseController(w)}
	return e, e.write("retry: %d\n\n", eventRetry.Milliseconds())
}

// End resets the connection for the next request on it.
func (e *Events) End() { e.connection.SetWriteDeadline(time.Time{}) }

// Send sends an event with data as JSON. A reader that reconnects sends the id of its last event; an empty id
// leaves that unchanged.
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

// Idle shows the reader and proxies that the stream is alive.
func (e *Events) Idle() error { return e.write(": nothing new\n\n") }

func (e *Events) write(format string, args ...any) error {
	e.connection.SetWriteDeadline(time.Now().Add(eventTimeout))
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.connection.Flush()
}
