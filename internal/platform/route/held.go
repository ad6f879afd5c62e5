package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"runtime/debug"
	"time"
)

// Held is the result of a handler that waits for long. The wait does not need the request: on most connections it
// runs after the request was parked, see package parked. ctx ends when the client disconnects.
type Held[T any] struct {
	Wait func(ctx context.Context) (T, error)
}

func (h Held[T]) schemaType() reflect.Type              { return reflect.TypeFor[T]() }
func (h Held[T]) wait(ctx context.Context) (any, error) { return h.Wait(ctx) }

type held interface {
	wait(ctx context.Context) (any, error)
}

// serveHeld serves the result of a handler that waits.
func (s *Server) serveHeld(w *observed, r *Request, status int, h held) {
	if s.park(w, r.Request, status, h) {
		return
	}
	result, err := h.wait(r.Context())
	if err != nil {
		s.fail(w, r.route.withFieldNames(err))
		return
	}
	s.write(w, status, result)
}

// park takes the connection of a request over, and serves the rest of the request on another goroutine. It reports
// whether it could.
func (s *Server) park(w *observed, hr *http.Request, status int, h held) bool {
	if s.parked == nil || hr.TLS != nil || hr.ProtoMajor != 1 || hr.ProtoMinor != 1 || hr.Method != http.MethodGet || hr.ContentLength != 0 || hr.Close {
		return false
	}
	if !s.parked.Park() {
		return false
	}
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		s.parked.Unpark()
		return false
	}
	unread, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	p := &parkedRequest{server: s, w: w, conn: conn, unread: bytes.Clone(unread), status: status, held: h}
	w.parked = true
	// Nothing of the request is kept, so that its buffers are freed.
	w.ResponseWriter = &parkedResponse{header: w.Header()}
	go p.serve()
	return true
}

// A parkedRequest is a request whose connection was taken over.
type parkedRequest struct {
	server *Server
	w      *observed
	conn   net.Conn
	unread []byte // of the next request
	status int
	held   held
}

// serve waits for the result, writes the response and returns the connection.
func (p *parkedRequest) serve() {
	s := p.server
	defer s.parked.Unpark()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.w.ctx = ctx
	stop := s.parked.Watch(p.conn, cancel)
	result, err := p.wait(ctx)
	stop()
	if err != nil {
		s.fail(p.w, err)
	} else {
		s.write(p.w, p.status, result)
	}
	s.finish(p.w)
	last := s.parked.Draining() || ctx.Err() != nil
	p.conn.SetWriteDeadline(time.Now().Add(s.writeTimeout))
	if _, err := p.conn.Write(p.w.ResponseWriter.(*parkedResponse).bytes(p.w.status, last)); err != nil || last {
		p.conn.Close()
		return
	}
	p.conn.SetWriteDeadline(time.Time{})
	s.parked.Return(p.conn, p.unread)
}

// wait returns the result. A panic is logged and becomes an error, as in requests that are not parked.
func (p *parkedRequest) wait(ctx context.Context) (result any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			p.server.log.Error("panic", "request_id", p.w.id, "panic", reason, "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
	}()
	return p.held.wait(ctx)
}

// parkedResponse collects the response of a parked request.
type parkedResponse struct {
	header http.Header
	body   []byte
}

func (r *parkedResponse) Header() http.Header { return r.header }

func (r *parkedResponse) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return len(b), nil
}

func (r *parkedResponse) WriteHeader(int)                  {}
func (r *parkedResponse) SetWriteDeadline(time.Time) error { return nil } // set when it is written

// bytes returns the response as it is sent. last is set when the connection is closed after it.
func (r *parkedResponse) bytes(status int, last bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", status, http.StatusText(status))
	r.header["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	if last {
		r.header["Connection"] = []string{"close"}
	}
	r.header.Write(&b)
	b.WriteString("\r\n")
	b.Write(r.body)
	return b.Bytes()
}
