package agents

import (
	"net/http"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Service) sessionRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: APIPath + "/register", Tag: agentTag, Summary: "Register an agent",
			Description: "The response contains the session token for all further requests of the agent.",
			Auth:        route.Registration,
			Handler:     route.DoBody(s.postRegister),
		},
		{
			Method: http.MethodPost, Path: APIPath + "/connect", Tag: agentTag, Summary: "Connect a registered agent",
			Auth:    route.Session,
			Handler: route.On(s.loadCaller, s.postConnect),
		},
		{
			Method: http.MethodPost, Path: APIPath + "/heartbeat", Tag: agentTag, Summary: "Send a heartbeat",
			Auth:    route.Session,
			Handler: route.OnBody(s.loadCaller, s.postHeartbeat),
		},
		{
			Method: http.MethodPost, Path: APIPath + "/disconnect", Tag: agentTag, Summary: "Disconnect an agent",
			Description: "Invalidates the session token, except for repeating this request.",
			Auth:        route.Session,
			Handler:     route.Do(s.postDisconnect),
		},
	}
}

// The intervals, in seconds, that agents are asked to keep.
const (
	pingInterval      = 2
	jobStatusInterval = 2
	heartbeatInterval = 30
)

// heartbeats returns the heartbeat interval in seconds: three heartbeats fit into LostAfter.
func (s *Service) heartbeats() int {
	return max(1, min(heartbeatInterval, int(s.LostAfter/time.Second)/3))
}

type registeredView struct {
	ID                string   `json:"id"`
	Name              string   `json:"name"`
	AccessToken       string   `json:"access_token" doc:"The session token. It is only in this response."`
	PingInterval      int      `json:"ping_interval" doc:"Seconds."`
	JobStatusInterval int      `json:"job_status_interval" doc:"Seconds."`
	HeartbeatInterval int      `json:"heartbeat_interval" doc:"Seconds."`
	Tags              []string `json:"meta_data"`
}

func (s *Service) postRegister(r *route.Request, body registration) (registeredView, error) {
	a, err := body.agent()
	if err != nil {
		return registeredView{}, err
	}
	a.Address, a.UserAgent = r.Address.String(), core.Cut(r.UserAgent(), maxText)
	token, err := s.register(r.Context(), r.Agent, r.Acquisition, &body, a)
	return registeredView{
		ID:                a.ID,
		Name:              a.Name,
		AccessToken:       token,
		PingInterval:      pingInterval,
		JobStatusInterval: jobStatusInterval,
		HeartbeatInterval: s.heartbeats(),
		Tags:              a.Tags,
	}, err
}

// An EmptyView is the body of responses that agents do not read.
type EmptyView struct{}

func (s *Service) postConnect(r *route.Request, a caller) (EmptyView, error) {
	return EmptyView{}, s.connect(r.Context(), a.Agent)
}

type heartbeatSent struct {
	SentAt string `json:"sent_at"`
}

type heartbeatView struct {
	SentAt     string    `json:"sent_at"`
	ReceivedAt core.Time `json:"received_at"`
}

// postHeartbeat runs no statement, unless the agent was lost.
func (s *Service) postHeartbeat(r *route.Request, a caller, beat heartbeatSent) (heartbeatView, error) {
	if err := s.ensureConnected(r.Context(), a); err != nil {
		return heartbeatView{}, err
	}
	return heartbeatView{SentAt: beat.SentAt, ReceivedAt: core.At(s.clock())}, nil
}

func (s *Service) postDisconnect(r *route.Request) (EmptyView, error) {
	return EmptyView{}, s.disconnect(r.Context(), r.Org.ID, r.Session.AgentID)
}
