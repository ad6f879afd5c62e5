package testresults

import (
	"fmt"
	"net/http"
	"strings"

	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/testreport"
)

func (s *Service) buildRoutes() []route.Route {
	const tag, path = "Test results", "/v2/analytics/organizations/{org}/builds/{build_id}"
	filters := []route.Param{
		{Name: "result", Doc: "failed or passed: tests with at least one such execution; ^failed or ^passed: tests whose executions all are."},
		{Name: "state", Doc: "enabled, muted or skipped."},
		{Name: "labels", Doc: "Only tests with all these labels, and without those that follow a !, such as flaky,!slow."},
		{Name: "include", Doc: "latest_fail: also the newest failed execution of each test; executions: also its executions."},
	}
	return []route.Route{
		{
			Method: http.MethodGet, Path: path + "/tests", Tag: tag, Summary: "List the tests of a build",
			Description: "The tests that ran in a build, with what happened to each in it, from every suite that the caller can see. The build is named by its UUID.",
			Scope:       identity.ReadSuites, Permission: identity.ReadPipeline,
			Query: append(append(filters,
				route.Param{Name: "sort_by", Doc: "duration_avg, duration_sum, duration_min, duration_max or reliability; duration_avg unless given."},
				route.Param{Name: "order", Doc: "asc or desc; desc unless given."}), route.PageParams...),
			Handler: route.On(s.loadBuild, s.listBuildTests),
		},
		{
			Method: http.MethodGet, Path: path + "/preflight/v1", Tag: tag, Summary: "Summarize the tests of a build",
			Description: "The runs of a build with how many executions passed, failed and were skipped, and the first 100 tests that failed. The build is named by its UUID.",
			Scope:       identity.ReadSuites, Permission: identity.ReadPipeline,
			Query:   filters,
			Handler: route.On(s.loadBuild, s.getPreflight),
		},
	}
}

// onBuild is a build with its runs in suites that the caller can see.
type onBuild struct {
	*pipelines.Pipeline // decides who can see it
	runs                []Run
	suites              map[string]*suites.Suite
}

const noBuild = "No build found"

func (s *Service) loadBuild(r *route.Request) (o onBuild, err error) {
	id, err := r.PathID("build_id", noBuild)
	if err != nil {
		return o, err
	}
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		pipelineID, err := builds.PipelineOf(q, r.Org.ID, id)
		if err != nil {
			return err
		}
		o.Pipeline, err = pipelines.ByID(q, pipelines.ViewerOf(r), pipelineID)
		if core.KindOf(err) == core.NotFound {
			return core.Errorf(core.NotFound, noBuild)
		}
		return err
	})
	if err != nil {
		return o, err
	}
	o.runs, o.suites, err = s.visibleRuns(r, id)
	return o, err
}

// visibleRuns returns the runs of a build in suites that the caller can see, and these suites by id.
func (s *Service) visibleRuns(r *route.Request, buildID string) ([]Run, map[string]*suites.Suite, error) {
	var all []Run
	err := s.results.Read(r.Context(), func(q *db.Q) (err error) {
		all, err = runsOfBuild(q, r.Org.ID, buildID)
		return err
	})
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	ids := make([]string, len(all))
	for i, run := range all {
		ids[i] = run.SuiteID
	}
	byID := make(map[string]*suites.Suite)
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		found, _, err := suites.Among(q, suites.ViewerOf(r), ids, maxBuildRuns, 0)
		for _, suite := range found {
			byID[suite.ID] = suite
		}
		return err
	})
	var visible []Run
	for _, run := range all {
		if byID[run.SuiteID] != nil {
			visible = append(visible, run)
		}
	}
	return visible, byID, err
}

// RunsOf returns the runs of a build in suites that the caller of a request can see. Visitors see none.
func (s *Service) RunsOf(r *route.Request, buildID string) (shown []buildapi.TestRun, err error) {
	if r.Member == nil {
		return nil, nil
	}
	runs, suites, err := s.visibleRuns(r, buildID)
	for _, run := range runs {
		shown = append(shown, buildapi.TestRun{ID: run.ID, SuiteID: run.SuiteID, SuiteSlug: suites[run.SuiteID].Slug})
	}
	return shown, err
}

// seqs returns the runs by the numbers that executions know them by.
func (o onBuild) seqs() []int64 {
	seqs := make([]int64, len(o.runs))
	for i, run := range o.runs {
		seqs[i] = run.seq
	}
	return seqs
}

type buildTestView struct {
	testIdentity
	metricsView
	Labels     testLabels               `json:"labels" doc:"Objects with name and color, or texts for requests with Service-Version 2026-08-01 or later."`
	State      TestState                `json:"state"`
	LatestFail *buildTestFailView       `json:"latest_fail,omitempty" doc:"With include=latest_fail."`
	Executions []buildTestExecutionView `json:"executions,omitempty" doc:"With include=executions, the newest first."`
}

type buildTestFailView struct {
	ID              string                `json:"id"`
	Timestamp       core.Time             `json:"timestamp"`
	Duration        float64               `json:"duration" doc:"Seconds."`
	FailureReason   *string               `json:"failure_reason"`
	FailureExpanded []failureExpandedView `json:"failure_expanded"`
}

type buildTestExecutionView struct {
	buildTestFailView
	Status   testreport.Result `json:"status"`
	Location *string           `json:"location"`
}

// testLabels are labels in one of the two forms that published clients decode.
type testLabels struct {
	names []string
	texts bool
}

// MarshalJSON writes texts or objects.
func (l testLabels) MarshalJSON() ([]byte, error) {
	labels := make([]string, len(l.names))
	for i, name := range l.names {
		labels[i] = fmt.Sprintf(`{"name": %q, "color": "#F4A259"}`, name)
		if l.texts {
			labels[i] = fmt.Sprintf("%q", name)
		}
	}
	return []byte("[" + strings.Join(labels, ", ") + "]"), nil
}

// JSONSchema describes both forms.
func (testLabels) JSONSchema() map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{"type": "object", "required": []string{"name", "color"}},
	}}}
}

// maxIncluded is how many executions are included in a page of a build's tests.
const maxIncluded = 5000

func (s *Service) listBuildTests(r *route.Request, o onBuild) (none route.Paged[buildTestView], err error) {
	version, err := versionOf(r)
	if err != nil {
		return none, err
	}
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	filter, err := buildFilterOf(r)
	if err != nil {
		return none, err
	}
	var tests []buildTest
	var included map[string][]Execution
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		if tests, err = buildTests(q, o.seqs(), filter, page.More(), page.Offset()); err != nil {
			return err
		}
		included, err = include(q, o.seqs(), tests, filter)
		return err
	})
	return route.MapMore(tests, page, func(t buildTest) buildTestView {
		test := s.testView(r.Org, o.suites[t.SuiteID], t.Test)
		v := buildTestView{
			testIdentity: test.testIdentity, metricsView: viewMetrics(&t.Metrics), State: test.State,
			Labels: testLabels{test.Labels, version >= metricsVersion},
		}
		for _, e := range included[t.ID] {
			fail := buildTestFailView{e.ID(), core.At(e.At()), e.Duration.Seconds(), core.OrNull(e.FailureReason), failuresView(e.Failures)}
			if filter.latestFail && v.LatestFail == nil && e.Result == testreport.Failed {
				v.LatestFail = &fail
			}
			if filter.executions {
				v.Executions = append(v.Executions, buildTestExecutionView{fail, e.Result, test.Location})
			}
		}
		return v
	}), err
}
