package agents

import (
	"context"
	"net/http"

	"stackyard/internal/platform/route"
)

func (s *Service) pingRoutes() []route.Route {
	return []route.Route{{
		Method: http.MethodGet, Path: APIPath + "/ping", Tag: agentTag, Summary: "Ping for a job",
		Description: "When there is no job, the request waits for one for some seconds.",
		Auth:        route.Session,
		Handler:     route.On(s.loadCaller, s.getPing),
	}}
}

type pingView struct {
	Job     *offeredJobView `json:"job,omitempty" doc:"The job to accept."`
	Action  action          `json:"action,omitempty" doc:"pause: stay connected and take no jobs. disconnect: stop. Absent: continue."`
	Message string          `json:"message,omitempty"`
}

type offeredJobView struct {
	ID string `json:"id"`
}

func (s *Service) getPing(r *route.Request, a caller) (route.Held[pingView], error) {
	if err := s.ensureConnected(r.Context(), a); err != nil {
		return route.Held[pingView]{}, err
	}
	sess := a.session
	return route.Held[pingView]{Wait: func(ctx context.Context) (pingView, error) {
		next, err := s.ping(ctx, sess)
		v := pingView{Action: next.action, Message: next.message}
		if next.jobID != "" {
			v.Job = &offeredJobView{ID: next.jobID}
		}
		return v, err
	}}, nil
}
