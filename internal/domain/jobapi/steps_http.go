package jobapi

import (
	"math"
	"net/http"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

func (s *Service) stepRoutes() []route.Route {
	const step = agents.APIPath + "/steps/{step}"
	routes := []route.Route{
		{
			Method: http.MethodPost, Path: step + "/export", Summary: "Get an attribute of a step",
			Description: "The step is one of the job's build, by id or key. Without an attribute, returns all attributes as JSON.",
			Handler:     route.OnBody(s.agents.LoadOwnJob, s.exportStep),
		},
		{
			Method: http.MethodPut, Path: step, Summary: "Change an attribute of a step",
			Description: "The step is one of the job's build, by id or key. The attribute is label, notify or priority.",
			Handler:     route.OnBody(s.agents.LoadOwnJob, s.putStep),
		},
		{
			Method: http.MethodPost, Path: step + "/cancel", Summary: "Cancel the jobs of a step",
			Description: "The step is one of the job's build, by id or key. Jobs that have ended do not change.",
			Handler:     route.OnBody(s.agents.LoadOwnJob, s.cancelStep),
		},
		{
			Method: http.MethodPost, Path: agents.BuildPath + "/cancel", Summary: "Cancel the job's build",
			Errors:  []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.agents.LoadJobOfBuild, s.cancelBuild),
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Auth = agents.JobTag, route.Job
	}
	return routes
}

// checkBuild refuses a build other than the job's own.
func checkBuild(h builds.Holding, id string) error {
	if own, _ := core.ParseID(id); id != "" && own != h.BuildID {
		return agents.ErrOtherBuild
	}
	return nil
}

type stepAttributeGet struct {
	BuildID   string `json:"build_id" doc:"The job's build."`
	Attribute string `json:"attribute"`
	Format    string `json:"format" doc:"json returns the value as JSON."`
}

type stepAttributeView struct {
	Output string `json:"output"`
}

func (s *Service) exportStep(r *route.Request, h builds.Holding, body stepAttributeGet) (stepAttributeView, error) {
	if err := checkBuild(h, body.BuildID); err != nil {
		return stepAttributeView{}, err
	}
	if body.Format != "" && body.Format != "json" && body.Format != "string" {
		return stepAttributeView{}, core.Errorf(core.Unprocessable, "The format is json or string, not %q", body.Format)
	}
	step, err := s.builds.Step(r.Context(), r.Org.ID, h.BuildID, r.PathValue("step"))
	if err != nil {
		return stepAttributeView{}, err
	}
	output, err := ExportStep(step, body.Attribute, body.Format == "json")
	return stepAttributeView{output}, err
}

type stepUpdate struct {
	IdempotencyUUID string `json:"idempotency_uuid" doc:"Idempotency key: the same update is applied once."`
	BuildID         string `json:"build_id" doc:"The job's build."`
	Attribute       string `json:"attribute"`
	Value           string `json:"value"`
	Append          bool   `json:"append"`
}

func (s *Service) putStep(r *route.Request, h builds.Holding, body stepUpdate) (agents.EmptyView, error) {
	if err := checkBuild(h, body.BuildID); err != nil {
		return agents.EmptyView{}, err
	}
	return agents.EmptyView{}, s.builds.UpdateStep(r.Context(), r.Org.ID, h.BuildID, r.PathValue("step"), lifecycle.StepUpdate{
		ID:        body.IdempotencyUUID,
		Attribute: body.Attribute,
		Value:     body.Value,
		Append:    body.Append,
	})
}

type stepCancel struct {
	BuildID          string `json:"build_id" doc:"The job's build."`
	Force            bool   `json:"force" doc:"Whether to end jobs that agents do not stop in time."`
	ForceGracePeriod int64  `json:"force_grace_period" doc:"Seconds that agents have to stop jobs, with force."`
}

type canceledView struct {
	UUID string `json:"uuid"`
}

func (s *Service) cancelStep(r *route.Request, h builds.Holding, body stepCancel) (canceledView, error) {
	if err := checkBuild(h, body.BuildID); err != nil {
		return canceledView{}, err
	}
	if body.ForceGracePeriod < 0 || body.ForceGracePeriod > math.MaxInt32 {
		return canceledView{}, core.Errorf(core.Unprocessable, "force_grace_period is a number of seconds")
	}
	id, err := s.builds.CancelStep(r.Context(), r.Org.ID, h.BuildID, r.PathValue("step"), body.Force, time.Duration(body.ForceGracePeriod)*time.Second)
	return canceledView{id}, err
}

// cancelBuild returns the same response when the build is already being canceled, so that the request can be
// repeated.
func (s *Service) cancelBuild(r *route.Request, h builds.Holding) (canceledView, error) {
	state, err := s.builds.State(r.Context(), r.Org.ID, h.BuildID)
	if err == nil && state != flow.BuildCanceling && state != flow.BuildCanceled {
		err = s.builds.Cancel(r.Context(), r.Org.ID, h.BuildID, "")
	}
	return canceledView{h.BuildID}, err
}
