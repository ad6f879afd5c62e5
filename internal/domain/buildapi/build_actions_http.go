package buildapi

import (
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) actionRoutes() []route.Route {
	unprocessable := []int{http.StatusUnprocessableEntity}
	routes := []route.Route{
		{
			Method: http.MethodPut, Path: builds.BuildPath + "/cancel", Summary: "Cancel a build",
			Description: "Jobs that agents run are canceled as soon as they have stopped.",
			Errors:      unprocessable, Handler: route.On(s.builds.LoadOnBuild, s.putCancel),
		},
		{
			Method: http.MethodPut, Path: builds.BuildPath + "/rebuild", Summary: "Rebuild a build",
			Description: "Creates a build with the same commit, branch, message, environment and pull request, and returns it.",
			Errors:      unprocessable, Handler: route.On(s.builds.LoadOnBuild, s.putRebuild),
		},
		{
			Method: http.MethodPut, Path: builds.BuildPath + "/retry_failed_jobs", Summary: "Retry the failed jobs of a build",
			Status: http.StatusAccepted, Handler: route.OnBody(s.builds.LoadOnBuild, s.putRetryFailedJobs),
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Scope, routes[i].Permission = "Builds", identity.WriteBuilds, identity.BuildPipeline
	}
	return routes
}

// viewNow returns a build as it is now, and with it the counts of its pipeline.
func (s *Service) viewNow(r *route.Request, p *pipelines.Pipeline, id string, show shown) (shownBuildView, error) {
	var b *builds.Build
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if b, err = builds.ByID(q, r.Org.ID, id); err != nil {
			return err
		}
		p, err = pipelines.ByID(q, pipelines.ViewerOf(r), p.ID)
		return err
	})
	if err != nil {
		return shownBuildView{}, err
	}
	return s.oneView(r, p, b, show)
}

func (s *Service) putCancel(r *route.Request, o builds.OnBuild) (shownBuildView, error) {
	if err := s.builds.Cancel(r.Context(), r.Org.ID, o.Build.ID, ""); err != nil {
		return shownBuildView{}, err
	}
	return s.viewNow(r, o.Pipeline, o.Build.ID, withAll)
}

func (s *Service) putRebuild(r *route.Request, o builds.OnBuild) (shownBuildView, error) {
	rebuilt, err := s.builds.Rebuild(r.Context(), o, builds.FromAPI, &r.Caller.User)
	if err != nil {
		return shownBuildView{}, err
	}
	return s.viewNow(r, o.Pipeline, rebuilt.ID, withAll)
}

type buildRetryFailedJobs struct {
	States string `json:"states" doc:"Which jobs to retry, separated by commas: canceled, expired, failed, soft_failed, timed_out. All of them unless given."`
}

// states returns the selected states, none for all of them.
func (b buildRetryFailedJobs) states() ([]string, error) {
	known := lifecycle.RetryableStates()
	var states, invalid []string
	for _, name := range strings.FieldsFunc(b.States, func(r rune) bool { return r == ',' || r == ' ' }) {
		if state := strings.ToLower(name); slices.Contains(known, state) {
			states = append(states, state)
		} else {
			invalid = append(invalid, name)
		}
	}
	if len(invalid) > 0 {
		return nil, core.Errorf(core.BadRequest, "Invalid states: %s. Valid states are: %s", strings.Join(invalid, ", "), strings.Join(known, ", "))
	}
	return states, nil
}

func (s *Service) putRetryFailedJobs(r *route.Request, o builds.OnBuild, body buildRetryFailedJobs) (shownBuildView, error) {
	states, err := body.states()
	if err != nil {
		return shownBuildView{}, err
	}
	retried, err := s.builds.RetryFailed(r.Context(), o.Build, &r.Caller.User, states...)
	if err != nil {
		return shownBuildView{}, err
	}
	show := withAll
	show.retriedJobsCount = &retried
	return s.viewNow(r, o.Pipeline, o.Build.ID, show)
}
