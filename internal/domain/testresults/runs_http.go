package testresults

import (
	"net/http"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/testreport"
)

const (
	suitePath = suites.Path + "/{suite}"
	runsPath  = suitePath + "/runs"
)

func (s *Service) runRoutes() []route.Route {
	const tag = "Test results"
	return []route.Route{
		{
			Method: http.MethodGet, Path: "/v2/analytics/organizations/{org}/pipelines/{pipeline}/suites", Tag: "Suites",
			Summary:     "List the suites of a pipeline",
			Description: "Lists the suites with at least one run of the pipeline, oldest first.",
			Scope:       identity.ReadSuites, Permission: identity.ReadPipeline,
			Query:   append([]route.Param{suites.ShowTokenParam}, route.PageParams...),
			Handler: route.On(s.pipelines.Load, s.listPipelineSuites),
		},
		{
			Method: http.MethodGet, Path: runsPath, Tag: tag, Summary: "List the runs of a suite",
			Description: "Newest first.",
			Scope:       identity.ReadSuites,
			Query: append([]route.Param{
				{Name: "build_id", Doc: "Only runs of the build with this UUID."},
				{Name: "branch", Doc: "Only runs of this branch."},
			}, route.PageParams...),
			Handler: route.On(s.suites.Load, s.listRuns),
		},
		{
			Method: http.MethodGet, Path: runsPath + "/{run}", Tag: tag, Summary: "Get a run",
			Scope:   identity.ReadSuites,
			Handler: route.On(s.loadRun, s.getRun),
		},
		{
			Method: http.MethodGet, Path: runsPath + "/{run}/failed_executions", Tag: tag, Summary: "List the failed executions of a run",
			Description: "Oldest first.",
			Scope:       identity.ReadSuites,
			Query: append([]route.Param{
				{Name: "include_failure_expanded", Type: "boolean", Doc: "Whether to show the details of failures; false unless given."},
			}, route.PageParams...),
			Handler: route.On(s.loadRun, s.listFailedExecutions),
		},
	}
}

func (s *Service) listPipelineSuites(r *route.Request, p *pipelines.Pipeline) (route.Paged[suites.SuiteView], error) {
	return s.suites.Views(r, func(page route.Page) (found []*suites.Suite, total int, err error) {
		var ids []string
		err = s.results.Read(r.Context(), func(q *db.Q) error {
			ids, err = suitesOfPipeline(q, p.ID)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		err = s.db.Read(r.Context(), func(q *db.Q) error {
			found, total, err = suites.Among(q, suites.ViewerOf(r), ids, page.Size, page.Offset())
			return err
		})
		return found, total, err
	})
}

// onRun is a run with its suite.
type onRun struct {
	Run
	suite *suites.Suite
}

func (s *Service) loadRun(r *route.Request) (o onRun, err error) {
	o.Run, o.suite, err = loadFrom(s, r, "run", noRun, runByID)
	return o, err
}

// loadFrom returns what the id in a path names in a suite that the caller can see, and the suite. An id that is not a UUID
// is not found.
func loadFrom[T any](s *Service, r *route.Request, param, missing string, find func(q *db.Q, suiteID, id string) (T, error)) (found T, suite *suites.Suite, err error) {
	if suite, err = s.suites.Load(r); err != nil {
		return found, suite, err
	}
	id, err := r.PathID(param, missing)
	if err != nil {
		return found, suite, err
	}
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		found, err = find(q, suite.ID, id)
		return err
	})
	return found, suite, err
}

type runView struct {
	ID        string           `json:"id"`
	URL       string           `json:"url"`
	WebURL    string           `json:"web_url"`
	Branch    *string          `json:"branch"`
	CommitSHA *string          `json:"commit_sha"`
	State     string           `json:"state" doc:"finished, or running while nothing was uploaded."`
	Result    RunResult        `json:"result"`
	BuildID   *string          `json:"build_id" doc:"The UUID of the build that the run belongs to."`
	CreatedAt core.Time        `json:"created_at"`
	Key       string           `json:"key" doc:"The run_env.key of its uploads."`
	Number    *string          `json:"number"`
	Message   *string          `json:"message"`
	SourceURL *string          `json:"source_url" doc:"The run_env.url of its first upload."`
	Duration  float64          `json:"duration" doc:"Seconds that all executions took together."`
	Count     int              `json:"executions_count"`
	Counts    resultCountsView `json:"executions_count_by_result"`
}

// resultCountsView are executions by result. Passed and failed are always there.
type resultCountsView struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped,omitempty"`
	Pending int `json:"pending,omitempty"`
	Unknown int `json:"unknown,omitempty"`
}

func countsView(c Counts) resultCountsView {
	return resultCountsView{Passed: c.Passed, Failed: c.Failed, Skipped: c.Skipped, Pending: c.Pending, Unknown: c.Unknown}
}

func (s *Service) runView(r *route.Request, suite *suites.Suite, run Run) runView {
	v := runView{
		ID:        run.ID,
		URL:       suites.URL(s.public, r.Org, suite.Slug, "runs", run.ID),
		WebURL:    suites.WebURL(s.public, r.Org, suite.Slug, "runs", run.ID),
		Branch:    core.OrNull(run.Branch),
		CommitSHA: core.OrNull(run.CommitSHA),
		State:     "finished",
		Result:    run.Result(s.clock()),
		BuildID:   core.OrNull(run.BuildID),
		CreatedAt: core.At(run.CreatedAt),
		Key:       run.Key,
		Number:    core.OrNull(run.Number),
		Message:   core.OrNull(run.Message),
		SourceURL: core.OrNull(run.URL),
		Duration:  run.Counts.Duration.Seconds(),
		Count:     run.Counts.Total(),
		Counts:    countsView(run.Counts),
	}
	if v.Result == RunPending {
		v.State = "running"
	}
	return v
}

func (s *Service) listRuns(r *route.Request, suite *suites.Suite) (none route.Paged[runView], err error) {
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	build, err := r.QueryID("build_id", "the UUID of a build")
	if err != nil {
		return none, err
	}
	var runs []Run
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		runs, err = listRuns(q, suite.ID, build, r.FormQuery("branch"), page.More(), page.Offset())
		return err
	})
	return route.MapMore(runs, page, func(run Run) runView { return s.runView(r, suite, run) }), err
}

func (s *Service) getRun(r *route.Request, o onRun) (runView, error) {
	return s.runView(r, o.suite, o.Run), nil
}

type failedExecutionView struct {
	ExecutionID      string                `json:"execution_id"`
	RunID            string                `json:"run_id"`
	TestID           string                `json:"test_id"`
	RunName          string                `json:"run_name"`
	CommitSHA        *string               `json:"commit_sha"`
	CreatedAt        core.Time             `json:"created_at"`
	Branch           *string               `json:"branch"`
	FailureReason    *string               `json:"failure_reason"`
	FailureExpanded  []failureExpandedView `json:"failure_expanded,omitempty"`
	Duration         float64               `json:"duration" doc:"Seconds."`
	Location         *string               `json:"location"`
	Tags             map[string]string     `json:"tags,omitempty" doc:"What the upload says about the execution."`
	TestName         string                `json:"test_name" doc:"The scope and the name of the test."`
	RunURL           string                `json:"run_url"`
	TestURL          string                `json:"test_url"`
	TestExecutionURL string                `json:"test_execution_url"`
}

type failureExpandedView struct {
	Expanded  []string `json:"expanded"`
	Backtrace []string `json:"backtrace"`
}

func failuresView(failures []testreport.Failure) []failureExpandedView {
	views := make([]failureExpandedView, len(failures))
	for i, f := range failures {
		views[i] = failureExpandedView{Expanded: append([]string{}, f.Expanded...), Backtrace: append([]string{}, f.Backtrace...)}
	}
	return views
}

func (s *Service) listFailedExecutions(r *route.Request, o onRun) (none route.Paged[failedExecutionView], err error) {
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	expanded, err := r.Flag("include_failure_expanded", false)
	if err != nil {
		return none, err
	}
	var failed []FailedExecution
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		failed, err = failedExecutions(q, o.seq, page.Size, page.Offset())
		return err
	})
	return route.MapPage(failed, page, o.Counts.Failed, func(f FailedExecution) failedExecutionView {
		test := suites.WebURL(s.public, r.Org, o.suite.Slug, "tests", f.TestID)
		v := failedExecutionView{
			ExecutionID:      f.ID(),
			RunID:            o.Run.ID,
			TestID:           f.TestID,
			RunName:          o.Key,
			CommitSHA:        core.OrNull(o.CommitSHA),
			CreatedAt:        core.At(f.At()),
			Branch:           core.OrNull(o.Branch),
			FailureReason:    core.OrNull(f.FailureReason),
			Duration:         f.Duration.Seconds(),
			Location:         core.OrNull(f.Test.Location),
			Tags:             f.Tags,
			TestName:         f.Test.FullName(),
			RunURL:           suites.WebURL(s.public, r.Org, o.suite.Slug, "runs", o.Run.ID),
			TestURL:          test,
			TestExecutionURL: test + "?execution_id=" + f.ID(),
		}
		if expanded {
			v.FailureExpanded = failuresView(f.Failures)
		}
		return v
	}), err
}
