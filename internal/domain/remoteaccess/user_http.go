package remoteaccess

import (
	"context"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

const (
	userPath  = "/v2/remote-sessions/"
	relayPath = "/v3/relay/"
)

// userRoutes are the WebSockets of users and of other replicas. Their tokens are checked here.
func (s *Service) userRoutes() []route.Route {
	return []route.Route{
		{Method: http.MethodGet, Path: userPath + "{session}", Auth: route.Open, Hidden: true, Handler: route.Visit(s.getUser)},
		{Method: http.MethodGet, Path: relayPath + "{session}", Auth: route.Open, Hidden: true, Handler: route.Visit(s.getRelay)},
	}
}

// Endpoint returns the URL that a user connects to. It is a wss URL if the public URL is an https URL.
func (s *Service) Endpoint(id string) string {
	return "ws" + strings.TrimPrefix(string(s.Public), "http") + userPath + id
}

// The subprotocols of users. Browsers cannot send headers, so they send the token as a subprotocol.
const (
	binaryProtocol = "binary"
	tokenProtocol  = "token."
)

// accessToken returns the token that a user sends.
func accessToken(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(list, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(name), tokenProtocol); ok {
				return token
			}
		}
	}
	return ""
}

// getUser connects the user's end of a session.
func (s *Service) getUser(w http.ResponseWriter, r *route.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	id, err := r.PathID("session", noSession)
	if err != nil {
		return err
	}
	if err := checkUpgrade(r.Request); err != nil {
		return err
	}
	if s.isDraining() {
		return unavailable("the server is about to stop; connect again")
	}
	link, err := s.take(r.Context(), id, accessToken(r.Request), r.Address.String())
	if err != nil {
		if core.KindOf(err) == core.Unauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="Stackyard"`)
		}
		return err
	}
	conn, err := websocket.Accept(w, r.Request, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{binaryProtocol, tunnelProtocol}})
	if err != nil {
		link.abandon()
		return nil // it has written the response
	}
	done := make(chan struct{})
	user := userEndOf(conn)
	go keepAlive(done, conn, user.close)
	s.open.Go(func() {
		defer close(done)
		link.join(user)
	})
	return nil
}

// A link leads to the agent's end of a session.
type link struct {
	// join connects the user's end, and returns when the session has ended.
	join    func(user *userEnd)
	abandon func()
}

// take uses the token of a session and returns the way to the agent's end.
func (s *Service) take(ctx context.Context, id, token, address string) (l link, err error) {
	var sess *Session
	err = s.DB.Write(ctx, func(q *db.Q) (err error) {
		if sess, err = use(q, id, seal.HashToken(token), address, s.Clock()); err != nil {
			return err
		}
		return s.writeEvent(q, events.SessionStarted, sess)
	})
	if err != nil {
		return l, err
	}
	if err = s.stillAllowed(ctx, sess); err == nil {
		l, err = s.linkTo(ctx, sess)
	}
	if err != nil {
		s.abandon(ctx, sess)
		return l, err
	}
	s.Log.InfoContext(ctx, "remote session started", "session", id, "kind", sess.Kind, "job", sess.JobID, "user", sess.UserID, "agent", sess.AgentID, "address", address)
	return l, nil
}

// linkTo returns the way to the agent's end, at this replica or another one.
func (s *Service) linkTo(ctx context.Context, sess *Session) (link, error) {
	if e := s.find(sess.ID); e != nil {
		return link{
			join: func(user *userEnd) {
				if !s.attach(e, user) {
					user.close("the session has ended")
					return
				}
				<-e.done
			},
			abandon: func() { e.finish("the user has disconnected") },
		}, nil
	}
	peer, err := s.dialPeer(ctx, sess)
	if err != nil {
		s.Log.WarnContext(ctx, "connect to replica failed", "session", sess.ID, "replica", sess.Relay, "error", err)
		return link{}, unavailable("the replica with the agent's connection cannot be reached")
	}
	return link{
		join:    func(user *userEnd) { forward(user, peer) },
		abandon: func() { peer.CloseNow() },
	}, nil
}
