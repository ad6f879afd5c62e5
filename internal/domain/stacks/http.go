package stacks

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

const (
	tag       = "Stacks"
	stackPath = "/v3/stacks/{stack}"
)

// Routes returns the routes of the stacks API, of timelines and of stacks in the REST API.
func (s *Service) Routes() []route.Route {
	routes := []route.Route{
		{
			Method: http.MethodPost, Path: "/v3/stacks/register", Summary: "Register a stack",
			Description: "Registers a new stack, or updates the one with the key. Idempotent.",
			Limit:       rateLimit("default"), Unprocessable: true,
			Errors:  []int{http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity},
			Handler: route.DoBody(s.postRegister),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/deregister", Summary: "De-register a stack",
			Limit: rateLimit("default"), Status: http.StatusNoContent,
			Handler: route.On(s.load, s.postDeregister),
		},
		{
			Method: http.MethodGet, Path: stackPath + "/scheduled-jobs", Summary: "List scheduled jobs of a queue",
			Limit: rateLimit("list-scheduled-jobs"),
			Query: []route.Param{
				{Name: "queue_key", Doc: "The queue; __default__ is the cluster's default queue. Required."},
				{Name: "limit", Type: "integer", Doc: "Maximum number of jobs, up to 1000. Defaults to 100."},
				{Name: "after", Doc: "Cursor. Returns the jobs after it."},
				{Name: "wait", Type: "integer", Doc: "Seconds, at most 30, to wait for a job when there is none."},
			},
			Errors:  []int{http.StatusBadRequest},
			Handler: route.On(s.load, s.getScheduledJobs),
		},
		{
			Method: http.MethodPut, Path: stackPath + "/scheduled-jobs/batch-reserve", Summary: "Reserve jobs",
			Limit:   rateLimit("batch-reserve"),
			Handler: route.OnBody(s.load, s.putBatchReserve),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/job-acquisition-tokens", Summary: "Issue job acquisition tokens",
			Limit: rateLimit("default"), Status: http.StatusCreated,
			Handler: route.OnBody(s.load, s.postTokens),
		},
		{
			Method: http.MethodGet, Path: stackPath + "/jobs/{job}", Summary: "Get a job",
			Limit:   rateLimit("show-job"),
			Handler: route.On(s.load, s.getJob),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/jobs/get-states", Summary: "Get the states of jobs",
			Limit:   rateLimit("batch-load-job-states"),
			Handler: route.OnBody(s.load, s.postStates),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/jobs/{job}/finish", Summary: "Finish a job without an agent",
			Limit: rateLimit("finish-job"), Unprocessable: true,
			Errors:  []int{http.StatusUnprocessableEntity},
			Handler: route.OnBody(s.loadJob, s.postFinish),
		},
		{
			Method: http.MethodPost, Path: stackPath + "/notifications", Summary: "Add notifications to jobs",
			Limit: rateLimit("stack-notification"), Unprocessable: true,
			Errors:  []int{http.StatusUnprocessableEntity},
			Handler: route.OnBody(s.load, s.postNotifications),
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Auth = tag, route.Agent
	}
	return append(routes, s.restRoutes()...)
}

func (s *Service) load(r *route.Request) (*Stack, error) {
	return s.find(r.Context(), r.Agent, r.PathValue("stack"))
}

type stackRegister struct {
	Key      string       `json:"key"`
	Type     string       `json:"type" doc:"kubernetes, elastic or custom."`
	QueueKey string       `json:"queue_key"`
	Metadata sentMetadata `json:"metadata"`
}

type stackView struct {
	ID             string            `json:"id"`
	OrganizationID string            `json:"organization_uuid"`
	Key            string            `json:"key"`
	Type           string            `json:"type"`
	QueueKey       string            `json:"cluster_queue_key"`
	Metadata       map[string]string `json:"metadata"`
	ConnectedAt    core.Time         `json:"last_connected_on"`
	State          string            `json:"state"`
}

func (s *Service) postRegister(r *route.Request, body stackRegister) (route.Made[stackView], error) {
	var none route.Made[stackView]
	if err := r.Count(body.Key); err != nil {
		return none, err
	}
	stack := &Stack{Key: body.Key, Type: body.Type, QueueKey: body.QueueKey}
	if err := stack.check(); err != nil {
		return none, err
	}
	var err error
	if stack.Metadata, err = body.Metadata.read(); err != nil {
		return none, err
	}
	created, err := s.register(r.Context(), r.Agent, stack)
	if err != nil {
		return none, err
	}
	view := stackView{
		ID: stack.ID, OrganizationID: stack.OrganizationID, Key: stack.Key, Type: stack.Type, QueueKey: stack.QueueKey,
		Metadata: stack.Metadata, ConnectedAt: core.At(stack.ConnectedAt), State: stack.state(s.clock()),
	}
	return route.Made[stackView]{Body: view, New: created}, nil
}

func (s *Service) postDeregister(r *route.Request, stack *Stack) (route.Nothing, error) {
	return route.Nothing{}, s.deregister(r.Context(), stack.ID)
}
