package remoteaccess

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// agentRoutes are for the agent of a job: it waits for sessions, and connects its end of each.
func (s *Service) agentRoutes() []route.Route {
	path := agents.JobPath + "/sessions"
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: path, Summary: "Wait for remote sessions into a job",
			Description: "Returns when a user has requested a session, and otherwise after some seconds with an empty list.",
			Handler:     route.On(s.Agents.LoadJob, s.getRequested),
		},
		{
			Method: http.MethodGet, Path: path + "/{session}/tunnel", Summary: "Connect the agent's end of a remote session",
			Description: "A WebSocket. The text message \"start\" says that the user has connected; binary messages follow.",
			Media:       []string{"application/octet-stream"},
			Handler:     route.On(s.loadOffered, s.getTunnel),
		},
		{
			Method: http.MethodPut, Path: path + "/{session}/refuse", Summary: "Refuse a remote session",
			Handler: route.OnBody(s.loadOffered, s.putRefuse),
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Auth = agents.JobTag, route.Job
	}
	return routes
}

type requestedView struct {
	Sessions []requestedSessionView `json:"sessions"`
}

type requestedSessionView struct {
	ID            string `json:"id"`
	Kind          string `json:"kind" doc:"ssh or vnc."`
	AuthorizedKey string `json:"authorized_key" doc:"The public key of the user, for ssh."`
	Password      string `json:"password" doc:"The password that the user enters, for vnc."`
}

// maxHold is how long a request for sessions is held. Proxies drop silent connections after a minute.
const maxHold = 25 * time.Second

// getRequested returns the sessions that wait for the agent of a job, and waits until there is one.
func (s *Service) getRequested(r *route.Request, h builds.Holding) (v requestedView, err error) {
	r.SetHeader("Cache-Control", "no-store")
	v.Sessions = []requestedSessionView{}
	woken, cancel := s.Bus.Subscribe(jobTopic(h.JobID))
	defer cancel()
	held := time.NewTimer(maxHold)
	defer held.Stop()
	for {
		var waiting []*Session
		err := s.DB.Read(r.Context(), func(q *db.Q) (err error) {
			waiting, err = requestedOf(q, h.JobID, h.AgentID, s.Clock())
			return err
		})
		if err != nil {
			return v, err
		}
		for _, sess := range waiting {
			item := requestedSessionView{ID: sess.ID, Kind: string(sess.Kind), AuthorizedKey: sess.AuthorizedKey}
			if sess.Kind == Desktop {
				item.Password = s.vncPassword(sess.ID)
			}
			v.Sessions = append(v.Sessions, item)
		}
		if len(waiting) > 0 {
			return v, nil
		}
		select {
		case <-woken:
		case <-held.C:
			return v, nil
		case <-s.draining:
			return v, nil
		case <-r.Context().Done():
			return v, r.Context().Err()
		}
	}
}

// loadOffered returns the session in the path, of the job in the path.
func (s *Service) loadOffered(r *route.Request) (*Session, error) {
	h, err := s.Agents.LoadJob(r)
	if err != nil {
		return nil, err
	}
	sess, err := route.ReadByID(r, s.DB, "session", noSession, func(q *db.Q, id string) (*Session, error) { return byID(q, r.Org.ID, id) })
	if err == nil && (sess.JobID != h.JobID || sess.AgentID != h.AgentID || sess.State != Requested && sess.State != Ready) {
		err = core.Errorf(core.NotFound, noSession)
	}
	return sess, err
}

type sessionRefusal struct {
	Unsupported bool   `json:"unsupported" doc:"Whether the agent never has such sessions."`
	Message     string `json:"message"`
}

// unsupportedReason is the reason of sessions that agents refuse because they never have such sessions.
const unsupportedReason = "unsupported"

const maxReason = 500

func (s *Service) putRefuse(r *route.Request, sess *Session, body sessionRefusal) (agents.EmptyView, error) {
	reason := "the agent of the job refused it: " + core.Cut(body.Message, maxReason)
	if body.Unsupported {
		reason = unsupportedReason
	}
	return agents.EmptyView{}, s.DB.Write(r.Context(), func(q *db.Q) error { return refuse(q, sess.ID, reason, s.Clock()) })
}

// The headers with which an agent offers its end of a session.
const (
	usernameHeader = "Stackyard-Session-Username"
	hostKeyHeader  = "Stackyard-Session-Host-Key"
)

// maxOffer bounds a user name and a host key.
const maxOffer = 1 << 10

// getTunnel connects the agent's end of a session.
func (s *Service) getTunnel(r *route.Request, sess *Session) (route.Stream, error) {
	if err := checkUpgrade(r.Request); err != nil {
		return route.Stream{}, err
	}
	if s.isDraining() {
		return route.Stream{}, unavailable("the server is about to stop")
	}
	sess.Username, sess.HostKey, sess.Relay = r.Header.Get(usernameHeader), r.Header.Get(hostKeyHeader), s.Peer
	if sess.Username == "" || len(sess.Username) > maxOffer || len(sess.HostKey) > maxOffer {
		return route.Stream{}, core.Errorf(core.BadRequest, "%s and %s are required and have at most %d bytes", usernameHeader, hostKeyHeader, maxOffer)
	}
	if sess.Kind == Shell {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(sess.HostKey))
		if err != nil {
			return route.Stream{}, core.Errorf(core.BadRequest, "%s is not a public key in the format of authorized_keys", hostKeyHeader)
		}
		sess.HostKey = trimKey(key)
	}
	ctx := context.WithoutCancel(r.Context())
	hr := r.Request
	return route.Stream{Size: -1, Write: func(w http.ResponseWriter) error {
		conn, err := websocket.Accept(w, hr, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{tunnelProtocol}})
		if err != nil {
			return nil // it has written the response
		}
		conn.SetReadLimit(maxMessage)
		s.serveAgent(ctx, sess, conn)
		return nil
	}}, nil
}
