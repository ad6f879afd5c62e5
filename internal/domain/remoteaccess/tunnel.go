package remoteaccess

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const (
	// tunnelProtocol is the WebSocket subprotocol of agents and replicas.
	tunnelProtocol = "stackyard.tunnel"
	// maxMessage bounds a message of a WebSocket.
	maxMessage = 1 << 20
	// copySize is the size of messages that are sent.
	copySize = 32 << 10
	// pingEvery and pingTimeout find connections that died silently.
	pingEvery, pingTimeout = 20 * time.Second, 60 * time.Second
	// recordTimeout bounds the record of a session's end.
	recordTimeout = 10 * time.Second
)

// startMessage says to the agent that the user has connected.
const startMessage = "start"

// An agentEnd is the agent's end of a tunnel, at this replica.
type agentEnd struct {
	*Session
	conn     *websocket.Conn
	attached chan struct{} // closed when user is set
	user     *userEnd
	taken    bool // guarded by Service.mu

	once   sync.Once
	done   chan struct{} // closed when the session ends
	reason string        // why, set before

	sent, received atomic.Int64
}

// A userEnd is the user's end of a tunnel, or that of another replica.
type userEnd struct {
	net.Conn
	close func(reason string) // closes the connection and says why
}

// finish ends the session. Only the first reason counts.
func (e *agentEnd) finish(reason string) {
	e.once.Do(func() {
		e.reason = reason
		close(e.done)
	})
}

// serveAgent serves the agent's end of a session until the session ends. It returns at once.
func (s *Service) serveAgent(ctx context.Context, sess *Session, conn *websocket.Conn) {
	e := &agentEnd{Session: sess, conn: conn, attached: make(chan struct{}), done: make(chan struct{})}
	s.open.Go(func() {
		s.add(e)
		defer s.remove(e)
		go e.copyFromAgent()
		go keepAlive(e.done, conn, e.finish)
		go s.supervise(ctx, e)
		var ready bool
		err := s.DB.Write(ctx, func(q *db.Q) (err error) {
			ready, err = offer(q, sess, s.Clock())
			return err
		})
		if err != nil || !ready {
			e.finish("the session waits for no agent")
		}
		<-e.done
		s.mu.Lock()
		e.taken = true // no user connects any more
		user := e.user
		s.mu.Unlock()
		if user != nil {
			user.close(e.reason)
		}
		closeWith(conn, e.reason)
		if ready {
			s.record(ctx, e)
		}
	})
}

// add makes an agent's end available to users. An earlier connection of the agent is closed.
func (s *Service) add(e *agentEnd) {
	s.mu.Lock()
	before := s.ends[e.ID]
	s.ends[e.ID] = e
	s.mu.Unlock()
	if before != nil {
		before.finish(replacedReason)
	}
}

// replacedReason is the reason of an end that the agent has replaced by a new connection.
const replacedReason = "the agent has connected again"

func (s *Service) remove(e *agentEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[e.ID] == e {
		delete(s.ends, e.ID)
	}
}

// find returns the agent's end of a session, nil if it is not at this replica.
func (s *Service) find(id string) *agentEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends[id]
}

// attach connects the user's end. It reports false when the session has ended or another end is connected.
func (s *Service) attach(e *agentEnd, user *userEnd) bool {
	s.mu.Lock()
	ok := !e.taken
	if ok {
		e.taken, e.user = true, user
	}
	s.mu.Unlock()
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if err := e.conn.Write(ctx, websocket.MessageText, []byte(startMessage)); err != nil {
		e.finish("the agent is not connected")
		return true // finish closes the user's end
	}
	close(e.attached)
	go e.copyFromUser()
	return true
}

func (e *agentEnd) copyFromAgent() {
	for {
		_, message, err := e.conn.Read(context.Background())
		if err != nil {
			e.finish(closeReason(err, "the agent has closed the session"))
			return
		}
		select {
		case <-e.attached:
		case <-e.done:
			return
		}
		e.received.Add(int64(len(message)))
		if _, err := e.user.Write(message); err != nil {
			e.finish("the user has disconnected")
			return
		}
	}
}

func (e *agentEnd) copyFromUser() {
	buffer := make([]byte, copySize)
	for {
		n, err := e.user.Read(buffer)
		if n > 0 {
			e.sent.Add(int64(n))
			if err := e.conn.Write(context.Background(), websocket.MessageBinary, buffer[:n]); err != nil {
				e.finish("the agent is not connected")
				return
			}
		}
		if err != nil {
			e.finish("the user has disconnected")
			return
		}
	}
}

// supervise ends a session when it expires, or when its user could not open it any more.
func (s *Service) supervise(ctx context.Context, e *agentEnd) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := s.Directory.Changes(ctx, s.Bus)
	ended, unsubscribe := s.Bus.Subscribe(topic(e.ID))
	defer unsubscribe()
	tick := time.NewTicker(s.Directory.CheckEvery)
	defer tick.Stop()
	renewed := s.Clock()
	for {
		if now := s.Clock(); now.Sub(renewed) >= renewEvery {
			if err := s.DB.Write(ctx, func(q *db.Q) error { return renew(q, e.ID, now) }); err == nil {
				renewed = now
			}
		}
		if reason := s.overBecause(ctx, e); reason != "" {
			e.finish(reason)
		}
		select {
		case <-changed:
		case <-ended:
		case <-tick.C:
		case <-e.done:
			return
		}
	}
}

// overBecause returns why a session must end, or "".
func (s *Service) overBecause(ctx context.Context, e *agentEnd) string {
	var now *Session
	err := s.DB.Read(ctx, func(q *db.Q) (err error) {
		now, err = byID(q, e.OrganizationID, e.ID)
		return err
	})
	switch {
	case err != nil:
		return "" // the database may be away
	case now.State != Requested && now.State != Ready && now.State != Connected:
		return "the session has ended"
	case !s.Clock().Before(now.ExpiresAt):
		return "the session has expired"
	}
	err = s.stillAllowed(ctx, e.Session)
	if _, ok := errors.AsType[*core.Error](err); ok && core.KindOf(err) != core.Unavailable {
		return strings.ToLower(err.Error()[:1]) + err.Error()[1:]
	}
	return ""
}

// record writes how a session ended.
func (s *Service) record(ctx context.Context, e *agentEnd) {
	if e.reason == replacedReason {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	ended := *e.Session
	ended.Reason, ended.Sent, ended.Received, ended.EndedAt = e.reason, e.sent.Load(), e.received.Load(), s.Clock()
	err := s.DB.Write(ctx, func(q *db.Q) error { return s.endIn(q, &ended) })
	if err != nil {
		s.Log.WarnContext(ctx, "record remote session failed", "session", e.ID, "error", err)
	}
	s.Log.InfoContext(ctx, "remote session ended", "session", e.ID, "kind", e.Kind, "job", e.JobID, "user", e.UserID, "agent", e.AgentID,
		"sent", ended.Sent, "received", ended.Received, "reason", e.reason)
}

// keepAlive pings a connection until done, and calls lost when there is no answer.
func keepAlive(done <-chan struct{}, conn *websocket.Conn, lost func(reason string)) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
		err := conn.Ping(ctx)
		cancel()
		if err != nil {
			lost("the connection was lost")
			return
		}
	}
}

// maxCloseReason is how long a reason in a close message can be.
const maxCloseReason = 120

// closeWith closes a WebSocket and says why. It does not wait for the other side.
func closeWith(conn *websocket.Conn, reason string) {
	go func() {
		conn.Close(websocket.StatusNormalClosure, core.CutBytes(reason, maxCloseReason))
		conn.CloseNow()
	}()
}

// closeReason returns the reason in a close message, or another one.
func closeReason(err error, other string) string {
	if e, ok := errors.AsType[websocket.CloseError](err); ok && e.Reason != "" {
		return core.Cut(strings.ToValidUTF8(strings.ReplaceAll(e.Reason, "\x00", ""), ""), maxReason)
	}
	return other
}

// userEndOf makes the WebSocket of a user one end of a tunnel.
func userEndOf(conn *websocket.Conn) *userEnd {
	conn.SetReadLimit(maxMessage)
	return &userEnd{websocket.NetConn(context.Background(), conn, websocket.MessageBinary), func(reason string) { closeWith(conn, reason) }}
}

// forward copies between the user's end and another replica until one ends.
func forward(user *userEnd, peer *websocket.Conn) {
	go func() {
		buffer := make([]byte, copySize)
		for {
			n, err := user.Read(buffer)
			if n > 0 && peer.Write(context.Background(), websocket.MessageBinary, buffer[:n]) != nil {
				return // reading fails too
			}
			if err != nil {
				closeWith(peer, "the user has disconnected")
				return
			}
		}
	}()
	for {
		_, message, err := peer.Read(context.Background())
		if err != nil {
			user.close(closeReason(err, "the connection was lost"))
			return
		}
		if _, err := user.Write(message); err != nil {
			closeWith(peer, "the user has disconnected")
			return
		}
	}
}

// checkUpgrade returns an error unless a request asks for a WebSocket.
func checkUpgrade(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || r.ProtoMajor != 1 || r.Header.Get("Sec-WebSocket-Key") == "" {
		return core.Errorf(core.BadRequest, "This is a WebSocket endpoint; connect with a WebSocket client")
	}
	return nil
}

// trimKey returns a public key in the format of authorized_keys, without a comment.
func trimKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// Drain stops the server from taking part in new sessions. Those that are open continue until Wait returns.
func (s *Service) Drain() { close(s.draining) }

func (s *Service) isDraining() bool { return core.IsClosed(s.draining) }

// Wait returns when all sessions have ended. When ctx ends, it ends them.
func (s *Service) Wait(ctx context.Context) {
	s.mu.Lock()
	for _, e := range s.ends {
		if !e.taken { // the agent connects to another replica
			go e.finish("the server is about to stop")
		}
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.open.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	for _, e := range s.ends {
		go e.finish("the server is about to stop")
	}
	s.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(recordTimeout):
	}
}
