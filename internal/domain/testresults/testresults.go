// Package testresults keeps what is uploaded to test suites.
package testresults

import (
	"net/http"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Service reads and writes test results.
type Service struct {
	suites    *suites.Service
	pipelines *pipelines.Service
}

// New returns the service of test results.
func New(suites *suites.Service, pipelines *pipelines.Service) *Service {
	return &Service{suites: suites, pipelines: pipelines}
}

// Routes returns the routes of test results.
func (s *Service) Routes() []route.Route {
	return []route.Route{{
		Method: http.MethodGet, Path: "/v2/analytics/organizations/{org}/pipelines/{pipeline}/suites", Tag: "Suites",
		Summary:     "List the suites of a pipeline",
		Description: "Lists the suites with at least one run of the pipeline, oldest first.",
		Scope:       identity.ReadSuites, Permission: identity.ReadPipeline,
		Query:   route.PageParams,
		Handler: route.On(s.pipelines.Load, s.listPipelineSuites),
	}}
}

func (s *Service) listPipelineSuites(r *route.Request, _ *pipelines.Pipeline) (route.Paged[suites.SuiteView], error) {
	page, err := r.Page()
	return route.PageOf([]suites.SuiteView{}, page, 0), err
}
