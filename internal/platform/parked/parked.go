// Package parked serves requests that wait for long without the goroutine and the buffers that net/http keeps for
// each connection, which are most of the memory of an idle agent.
//
// A request is parked by hijacking its connection. After its response, the connection is idle; when the client sends
// the next request, it returns to the server as if it had just been accepted. One goroutine watches all of these
// connections, for clients that disconnect and for the next requests (watch_linux.go). Package route decides which
// requests are parked, and writes their responses.
//
// Only connections with HTTP/1.1 and without TLS are parked, and only on Linux. Everywhere else requests wait as
// usual.
package parked

import (
	"context"
	"net"
	"sync"
	"time"
)

// IdleTimeout is how long a returned connection can be idle before it is closed.
const IdleTimeout = 2 * time.Minute

// A Listener accepts new connections, and returned ones again.
type Listener struct {
	net.Listener
	watcher  *watcher
	accepted chan accepted
	closed   chan struct{}
	close    func() error

	mu       sync.Mutex
	parked   int           // connections with a request that waits
	draining bool          // no more are parked or returned
	none     chan struct{} // closed when draining and none is parked
}

// accepted is a result of Accept.
type accepted struct {
	conn net.Conn
	err  error
}

// Listen returns a Listener of the connections of another one, or nil where connections cannot be parked.
func Listen(l net.Listener) *Listener {
	p := &Listener{Listener: l, accepted: make(chan accepted), closed: make(chan struct{}), none: make(chan struct{})}
	if p.watcher = newWatcher(p.pass); p.watcher == nil {
		return nil
	}
	p.close = sync.OnceValue(func() error {
		close(p.closed)
		p.watcher.close()
		return l.Close()
	})
	go p.acceptNew()
	return p
}

// pass gives a connection to the server.
func (l *Listener) pass(conn net.Conn) {
	select {
	case l.accepted <- accepted{conn: conn}:
	case <-l.closed:
		conn.Close()
	}
}

// acceptNew passes on new connections and errors until the listener is closed.
func (l *Listener) acceptNew() {
	for {
		conn, err := l.Listener.Accept()
		select {
		case l.accepted <- accepted{conn, err}:
		case <-l.closed:
			if conn != nil {
				conn.Close()
			}
			return
		}
	}
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close closes the listener. Parked connections stay open until they are answered.
func (l *Listener) Close() error { return l.close() }

// Park counts a request that is about to be parked, until Unpark. It reports false when the server drains.
func (l *Listener) Park() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		return false
	}
	l.parked++
	return true
}

// Unpark records that a parked request was answered.
func (l *Listener) Unpark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parked--
	if l.draining && l.parked == 0 {
		close(l.none)
	}
}

// Draining reports whether the server drains: then connections are closed after their responses.
func (l *Listener) Draining() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draining
}

// Drain parks no more requests and closes idle connections.
func (l *Listener) Drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		return
	}
	l.draining = true
	if l.parked == 0 {
		close(l.none)
	}
	l.watcher.closeIdle(time.Now())
}

// Wait returns when no request is parked after Drain, or when ctx is done.
func (l *Listener) Wait(ctx context.Context) {
	select {
	case <-l.none:
	case <-ctx.Done():
	}
}

// Watch calls gone, once at most, when the client of a parked connection disconnects. stop ends that; call it
// before the connection is used again.
func (l *Listener) Watch(conn net.Conn, gone func()) (stop func()) {
	l.watcher.add(conn, &watched{gone: gone})
	return func() { l.watcher.remove(conn) }
}

// Return gives a connection back to the server for the next request, of which unread was read already.
func (l *Listener) Return(conn net.Conn, unread []byte) {
	if again, ok := conn.(*unreadConn); ok && len(again.unread) == 0 {
		conn = again.Conn
	}
	if _, more := conn.(*unreadConn); more || len(unread) > 0 {
		l.pass(&unreadConn{conn, unread})
		return
	}
	l.watcher.add(conn, &watched{idle: conn, since: time.Now()})
	if l.Draining() { // it may have closed idle connections before this one
		l.watcher.closeIdle(time.Now())
	}
}

// A watched connection is parked or idle.
type watched struct {
	gone  func()   // of a parked connection
	idle  net.Conn // an idle connection; nil: it is parked
	since time.Time
}

// unreadConn is a connection of which some bytes were read before.
type unreadConn struct {
	net.Conn
	unread []byte
}

func (c *unreadConn) Read(b []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}
