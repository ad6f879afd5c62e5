package agents

import (
	"context"
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// restPath is the path of an organization's agents in the REST API.
const restPath = "/v2/organizations/{org}/agents"

func (s *Service) restRoutes() []route.Route {
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: restPath, Summary: "List agents",
			Description: "Returns connected and stopping agents, oldest first.",
			Query: append([]route.Param{
				{Name: "name", Doc: "Filter by name."},
				{Name: "hostname", Doc: "Filter by hostname."},
				{Name: "version", Doc: "Filter by version."},
				{Name: "cluster_queue_id", Doc: "Filter by the id of the queue."},
			}, route.PageParams...),
			Handler: route.Do(s.listAgents),
		},
		{
			Method: http.MethodGet, Path: restPath + "/{agent}", Summary: "Get an agent",
			Description: "Returns an agent in any connection state.",
			Handler:     route.On(s.loadAgent, s.getAgent),
		},
		{
			Method: http.MethodPut, Path: restPath + "/{agent}/stop", Summary: "Stop an agent",
			Description: "The agent takes no more jobs and disconnects. Its job and the build of that job are canceled unless force is false.",
			Handler:     route.OnBody(s.loadAgent, s.putStop),
		},
		{
			Method: http.MethodPut, Path: restPath + "/{agent}/pause", Summary: "Pause an agent",
			Description: "The agent stays connected and gets no jobs until it is resumed or the timeout is over.",
			Handler:     route.OnBody(s.loadAgent, s.putPause),
		},
		{
			Method: http.MethodPut, Path: restPath + "/{agent}/resume", Summary: "Resume a paused agent",
			Handler: route.OnBody(s.loadAgent, s.putResume),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope = "Agents", identity.ReadAgents
		if r.Method == http.MethodPut {
			r.Scope, r.Permission, r.Status = identity.WriteAgents, identity.StopAgents, http.StatusNoContent
		}
	}
	return routes
}

// loadAgent returns the agent that the path names.
func (s *Service) loadAgent(r *route.Request) (*Agent, error) {
	return route.ReadByID(r, s.db, "agent", noAgent, func(q *db.Q, id string) (*Agent, error) { return byID(q, r.Org.ID, id) })
}

func (s *Service) listAgents(r *route.Request) (page route.Paged[agentView], err error) {
	asked, err := r.Page()
	if err != nil {
		return page, err
	}
	f := filter{name: r.FormQuery("name"), hostname: r.FormQuery("hostname"), version: r.FormQuery("version")}
	if queue := r.FormQuery("cluster_queue_id"); queue != "" {
		id, ok := core.ParseID(queue)
		if !ok {
			return page, core.Errorf(core.BadRequest, "cluster_queue_id must be the id of a queue")
		}
		f.queueID = id
	}
	var agents []*Agent
	var total int
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		agents, total, err = list(q, r.Org.ID, f, asked.Size, asked.Offset())
		return err
	})
	if err != nil {
		return page, err
	}
	views, err := s.views(r, agents)
	return route.PageOf(views, asked, total), err
}

// Find returns some connected agents of an organization whose name or hostname contains a text. It looks at a bounded
// number of agents, the oldest ones.
func (s *Service) Find(ctx context.Context, orgID, text string, limit int) (found []*Agent, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		found, err = named(q, orgID, text, limit)
		return err
	})
	return found, err
}

func (s *Service) getAgent(r *route.Request, a *Agent) (agentView, error) {
	views, err := s.views(r, []*Agent{a})
	if err != nil {
		return agentView{}, err
	}
	return views[0], nil
}

type agentStop struct {
	Force route.Opt[bool] `json:"force" doc:"Whether to cancel the agent's job and the build of that job. Defaults to true."`
}

func (s *Service) putStop(r *route.Request, a *Agent, body agentStop) (route.Nothing, error) {
	force := !body.Force.Set || body.Force.Null || body.Force.Value
	return route.Nothing{}, s.stop(r.Context(), r.Org.ID, a.ID, force, func(a *Agent) error {
		if a.State != Connected {
			return core.Errorf(core.BadRequest, "Can only stop connected agents")
		}
		return nil
	})
}

type agentPause struct {
	ownPause
}

func (s *Service) putPause(r *route.Request, a *Agent, body agentPause) (route.Nothing, error) {
	var problems core.Problems
	checkPause(&problems, body.Note, body.minutes())
	if err := problems.Err(); err != nil {
		return route.Nothing{}, err
	}
	return route.Nothing{}, s.pause(r.Context(), r.Org.ID, a.ID, &r.Caller.User, body.Note, body.minutes(), func(a *Agent) error {
		switch {
		case a.State != Connected:
			return core.Errorf(core.Unprocessable, "Only connected agents may be paused")
		case !a.Pause.At.IsZero():
			return core.Errorf(core.Unprocessable, "Agent is already paused")
		}
		return nil
	})
}

// agentResume is an empty object.
type agentResume struct{}

func (s *Service) putResume(r *route.Request, a *Agent, _ agentResume) (route.Nothing, error) {
	return route.Nothing{}, s.resume(r.Context(), r.Org.ID, a.ID, func(a *Agent) error {
		if a.Pause.At.IsZero() {
			return core.Errorf(core.Unprocessable, "Agent is not paused")
		}
		return nil
	})
}
