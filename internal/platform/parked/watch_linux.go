package parked

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// watcher notices when clients of parked connections disconnect, and when clients of idle ones send something.
type watcher struct {
	pass func(net.Conn) // of an idle connection that has something to read
	poll *os.File       // an epoll instance
	fd   int
	done chan struct{}

	mu    sync.Mutex
	conns map[int32]*watched // by file descriptor
}

// newWatcher returns a watcher, or nil when the system has no more descriptors.
func newWatcher(pass func(net.Conn)) *watcher {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // so that waiting for it takes no thread
		syscall.Close(fd)
		return nil
	}
	w := &watcher{pass: pass, poll: os.NewFile(uintptr(fd), "epoll"), fd: fd, done: make(chan struct{}), conns: map[int32]*watched{}}
	go w.run()
	go w.expire()
	return w
}

// close ends the watcher and closes idle connections.
func (w *watcher) close() {
	close(w.done)
	w.closeIdle(time.Now())
	w.poll.Close()
}

// add watches a connection.
func (w *watcher) add(conn net.Conn, as *watched) {
	events := uint32(syscall.EPOLLRDHUP | syscall.EPOLLONESHOT)
	if as.idle != nil {
		events |= syscall.EPOLLIN
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err := control(conn, func(fd int) error {
		w.conns[int32(fd)] = as
		err := syscall.EpollCtl(w.fd, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
		if err != nil {
			delete(w.conns, int32(fd))
		}
		return err
	})
	if err != nil && as.idle != nil {
		conn.Close()
	}
}

// remove ends watching a connection.
func (w *watcher) remove(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	control(conn, func(fd int) error {
		delete(w.conns, int32(fd))
		return syscall.EpollCtl(w.fd, syscall.EPOLL_CTL_DEL, fd, nil)
	})
}

// control calls fn with the file descriptor of a connection, which stays open meanwhile.
func control(conn net.Conn, fn func(fd int) error) error {
	for c, ok := conn.(*unreadConn); ok; c, ok = conn.(*unreadConn) {
		conn = c.Conn
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = fn(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// run handles events until the watcher is closed.
func (w *watcher) run() {
	raw, err := w.poll.SyscallConn()
	if err != nil {
		return
	}
	var events [128]syscall.EpollEvent
	for err == nil {
		n := 0
		err = raw.Read(func(fd uintptr) bool {
			n, _ = syscall.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		for _, event := range events[:max(n, 0)] {
			w.handle(event.Fd)
		}
	}
}

func (w *watcher) handle(fd int32) {
	w.mu.Lock()
	c := w.conns[fd]
	delete(w.conns, fd)
	if c != nil && c.idle != nil {
		syscall.EpollCtl(w.fd, syscall.EPOLL_CTL_DEL, int(fd), nil)
	}
	w.mu.Unlock()
	switch {
	case c == nil: // removed meanwhile
	case c.idle != nil:
		w.pass(c.idle)
	default:
		c.gone()
	}
}

// closeIdle closes the connections that are idle since a time or longer.
func (w *watcher) closeIdle(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for fd, c := range w.conns {
		if c.idle != nil && !c.since.After(since) {
			delete(w.conns, fd)
			c.idle.Close()
		}
	}
}

// expire closes connections that are idle for too long, until the watcher is closed.
func (w *watcher) expire() {
	ticker := time.NewTicker(IdleTimeout / 4)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			w.closeIdle(now.Add(-IdleTimeout))
		case <-w.done:
			return
		}
	}
}
