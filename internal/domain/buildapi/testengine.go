package buildapi

import "stackyard/internal/platform/route"

// A TestRun is a run of a test suite that belongs to a build.
type TestRun struct{ ID, SuiteID, SuiteSlug string }

// TestRuns returns the runs of a build that the caller of a request can see.
type TestRuns func(r *route.Request, buildID string) ([]TestRun, error)

// ShowTestRuns has builds shown with runs of test suites. It must be called before the first request.
func (s *Service) ShowTestRuns(runs TestRuns) { s.testRuns = runs }

// readTestEngine returns the runs of a build if the request asks for them, else nil.
func (s *Service) readTestEngine(r *route.Request, buildID string) (*testEngineView, error) {
	wanted, err := r.Flag("include_test_engine", false)
	if err != nil || !wanted {
		return nil, err
	}
	v := &testEngineView{Runs: []testRunView{}}
	if s.testRuns == nil {
		return v, nil
	}
	runs, err := s.testRuns(r, buildID)
	for _, run := range runs {
		v.Runs = append(v.Runs, testRunView{ID: run.ID, Suite: testSuiteView{ID: run.SuiteID, Slug: run.SuiteSlug}})
	}
	return v, err
}
