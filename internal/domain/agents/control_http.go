package agents

import (
	"net/http"

	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// controlRoutes are for agents, and for jobs that stop or pause the agent that runs them. The token names the
// agent.
func (s *Service) controlRoutes() []route.Route {
	routes := []route.Route{
		{
			Path: APIPath + "/stop", Summary: "Stop the token's agent",
			Description: "The agent takes no more jobs. Its current job continues unless force is true.",
			Handler:     route.OnBody(s.loadOwnAgent, s.postStop),
		},
		{
			Path: APIPath + "/pause", Summary: "Pause the token's agent",
			Handler: route.OnBody(s.loadOwnAgent, s.postPause),
		},
		{
			Path: APIPath + "/resume", Summary: "Resume the token's agent",
			Handler: route.On(s.loadOwnAgent, s.postResume),
		},
	}
	for i := range routes {
		routes[i].Method, routes[i].Tag, routes[i].Auth = http.MethodPost, agentTag, route.Job
	}
	return routes
}

// loadOwnAgent returns the id of the token's agent, or of the agent that has the token's job.
func (s *Service) loadOwnAgent(r *route.Request) (agentID string, err error) {
	if r.Session.JobID != "" {
		h, err := s.LoadOwnJob(r)
		return h.AgentID, err
	}
	a, err := s.loadCaller(r)
	if err != nil {
		return "", err
	}
	return a.ID, nil
}

// anyState allows an action in every state of the agent.
func anyState(*Agent) error { return nil }

type ownStop struct {
	Force bool `json:"force"`
}

func (s *Service) postStop(r *route.Request, agentID string, body ownStop) (EmptyView, error) {
	return EmptyView{}, s.stop(audit.With(r.Context(), r), r.Org.ID, agentID, body.Force, anyState)
}

type ownPause struct {
	Note    string         `json:"note"`
	Minutes route.Opt[int] `json:"timeout_in_minutes" doc:"From 1 to 10080. Defaults to the length of the previous pause, at first 5."`
}

// minutes returns the requested length, nil when the request has none.
func (p ownPause) minutes() *int {
	if !p.Minutes.Set || p.Minutes.Null {
		return nil
	}
	return &p.Minutes.Value
}

func (s *Service) postPause(r *route.Request, agentID string, body ownPause) (EmptyView, error) {
	var problems core.Problems
	if checkPause(&problems, body.Note, body.minutes()); len(problems) > 0 {
		return EmptyView{}, core.Errorf(core.Unprocessable, "%s %s", problems[0].Field, problems[0].Code)
	}
	return EmptyView{}, s.pause(audit.With(r.Context(), r), r.Org.ID, agentID, nil, body.Note, body.minutes(), anyState)
}

func (s *Service) postResume(r *route.Request, agentID string) (EmptyView, error) {
	return EmptyView{}, s.resume(audit.With(r.Context(), r), r.Org.ID, agentID, anyState)
}
