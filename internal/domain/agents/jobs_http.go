package agents

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

func (s *Service) jobRoutes() []route.Route {
	unprocessable := []int{http.StatusUnprocessableEntity}
	routes := []route.Route{
		{
			Method: http.MethodPut, Path: JobPath + "/start", Summary: "Start a job",
			Description: "Returns 422 when the job was canceled and must not start.",
			Handler:     route.OnBody(s.loadStarting, s.putStart),
		},
		{
			Method: http.MethodPut, Path: JobPath + "/finish", Summary: "Finish a job",
			Description: "Can be repeated within five minutes.",
			Handler:     route.OnBody(s.loadEnding, s.putFinish),
		},
		{
			Method: http.MethodGet, Path: JobPath, Summary: "Get the state of a job",
			Description: "The agent ends the job when its state is canceling or timing_out, or when the status is 401.",
			Handler:     route.On(s.LoadJob, s.getJob),
		},
		{
			Method: http.MethodPut, Path: JobPath, Summary: "Change the timeout of a running job",
			Handler: route.OnBody(s.LoadJob, s.putJob),
		},
		{
			Method: http.MethodPut, Path: JobPath + "/promise_failure", Summary: "Declare that a running job will fail",
			Description: "Returns 409 when another exit status was declared before.",
			Status:      http.StatusNoContent,
			Errors:      append(unprocessable, http.StatusConflict),
			Handler:     route.OnBody(s.LoadJob, s.putPromise),
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Auth = agentTag, route.Job
	}
	return routes
}

type jobStart struct {
	StartedAt string `json:"started_at"`
}

// putStart ignores the time that the agent sends and uses the server's.
func (s *Service) putStart(r *route.Request, h builds.Holding, _ jobStart) (EmptyView, error) {
	return EmptyView{}, s.start(r, h)
}

type jobFinish struct {
	ExitStatus   *wholeNumber `json:"exit_status"`
	Signal       string       `json:"signal"`
	SignalReason string       `json:"signal_reason"`
	ChunksFailed int          `json:"chunks_failed_count"`
	IgnoreAgent  bool         `json:"ignore_agent_in_dispatches" doc:"Whether the agent gets no more jobs."`
}

// wholeNumber is an integer that agents send as a string.
type wholeNumber int32

// UnmarshalJSON decodes a number or a string with a number.
func (n *wholeNumber) UnmarshalJSON(b []byte) error {
	parsed, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 32)
	if err != nil {
		return errors.New("it must be a whole number")
	}
	*n = wholeNumber(parsed)
	return nil
}

// JSONSchema describes the number.
func (wholeNumber) JSONSchema() map[string]any {
	return map[string]any{"type": []string{"string", "integer"}}
}

// maxReason is the maximum length of a signal or a reason, in characters.
const maxReason = 64

func (s *Service) putFinish(r *route.Request, h builds.Holding, body jobFinish) (EmptyView, error) {
	if body.ExitStatus == nil {
		return EmptyView{}, core.Errorf(core.Unprocessable, "exit_status is required")
	}
	return EmptyView{}, s.finish(r, h, ending{
		exit: flow.Exit{
			Status:       int(*body.ExitStatus),
			Signal:       core.Cut(body.Signal, maxReason),
			SignalReason: core.Cut(body.SignalReason, maxReason),
		},
		missing:      body.ChunksFailed,
		ignoreOnward: body.IgnoreAgent,
	})
}

type jobStateView struct {
	ID    string        `json:"id"`
	State flow.JobState `json:"state"`
}

func (s *Service) getJob(_ *route.Request, h builds.Holding) (jobStateView, error) {
	return jobStateView{h.JobID, h.State}, nil
}

type jobUpdate struct {
	Timeout *wholeNumber `json:"timeout" doc:"Minutes since the start of the job."`
}

type jobUpdatedView struct {
	ID string `json:"id"`
}

func (s *Service) putJob(r *route.Request, h builds.Holding, body jobUpdate) (jobUpdatedView, error) {
	if body.Timeout == nil {
		return jobUpdatedView{}, core.Errorf(core.Unprocessable, "Only the timeout of a job can be changed")
	}
	return jobUpdatedView{h.JobID}, s.builds.SetTimeout(r.Context(), r.Org.ID, h.JobID, h.AgentID, int(*body.Timeout))
}

type jobPromise struct {
	ExitStatus int    `json:"exit_status" doc:"Greater than 0."`
	Reason     string `json:"reason"`
}

func (s *Service) putPromise(r *route.Request, h builds.Holding, body jobPromise) (route.Nothing, error) {
	if body.ExitStatus <= 0 {
		return route.Nothing{}, core.Errorf(core.Unprocessable, "exit_status must be above zero")
	}
	return route.Nothing{}, s.builds.Promise(r.Context(), r.Org.ID, h.JobID, h.AgentID, body.ExitStatus, body.Reason, r.Org.Features.EarlyFailures)
}
