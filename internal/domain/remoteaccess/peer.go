package remoteaccess

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// relayScheme is the authentication scheme of replicas: a signature of the session's id with the installation's key. It
// is no secret that could be used twice, because a session has one user.
const relayScheme = "Relay "

// peerTimeout bounds how long connecting to another replica takes.
const peerTimeout = 10 * time.Second

// dialPeer connects to the replica that has the agent's end of a session.
func (s *Service) dialPeer(ctx context.Context, sess *Session) (*websocket.Conn, error) {
	if sess.Relay == s.Peer || sess.Relay == "" {
		return nil, errors.New("no replica has the agent's end")
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	if s.PeerTLS != nil {
		transport.TLSClientConfig = s.PeerTLS.Clone()
	}
	signature := base64.RawURLEncoding.EncodeToString(s.peers.Sign([]byte(sess.ID)))
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(sess.Relay, "http")+relayPath+sess.ID, &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: transport},
		HTTPHeader:   http.Header{"Authorization": {relayScheme + signature}},
		Subprotocols: []string{tunnelProtocol},
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

// getRelay connects another replica, which has the user's end, to the agent's end here.
func (s *Service) getRelay(w http.ResponseWriter, r *route.Request) error {
	id, err := r.PathID("session", noSession)
	if err != nil {
		return err
	}
	text, _ := strings.CutPrefix(r.Header.Get("Authorization"), relayScheme)
	signature, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || !s.peers.Verify([]byte(id), signature) {
		return core.Errorf(core.Unauthorized, "This endpoint is for other replicas")
	}
	if err := checkUpgrade(r.Request); err != nil {
		return err
	}
	e := s.find(id)
	if e == nil {
		return core.Errorf(core.NotFound, noSession)
	}
	conn, err := websocket.Accept(w, r.Request, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{tunnelProtocol}})
	if err != nil {
		return nil // it has written the response
	}
	user := userEndOf(conn)
	if !s.attach(e, user) {
		user.close("the session has ended")
		return nil
	}
	go keepAlive(e.done, conn, e.finish)
	return nil
}
