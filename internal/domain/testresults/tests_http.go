package testresults

import (
	"net/http"
	"strings"
	"time"

	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/testreport"
)

const testsPath = suitePath + "/tests"

func (s *Service) testRoutes() []route.Route {
	const tag = "Test results"
	search := route.Param{Name: "search", Doc: "A part of the scope, the name or the location."}
	return []route.Route{
		{
			Method: http.MethodGet, Path: testsPath, Tag: tag, Summary: "List the tests of a suite",
			Description: "By scope and name unless sort_by is given, with what happened to each within the period.",
			Scope:       identity.ReadSuites,
			Query: append([]route.Param{
				search,
				{Name: "label", Doc: "The same as labels."},
				{Name: "labels", Doc: "Only tests with all these labels, and without those that follow a !, such as flaky,!slow."},
				{Name: "period", Doc: "How far back metrics reach, in whole days: 1day, 7days, 14days or 28days; 28days unless given."},
				{Name: "state", Doc: "enabled, muted or skipped."},
				{Name: "sort_by", Doc: "duration_avg, duration_sum, duration_min, duration_max or reliability."},
				{Name: "order", Doc: "asc or desc; desc unless given."},
			}, route.PageParams...),
			Handler: route.On(s.suites.Load, s.listTests),
		},
		{
			Method: http.MethodPost, Path: testsPath + "/find", Tag: tag, Summary: "Find a test by its scope and name",
			Scope: identity.ReadSuites, Errors: []int{http.StatusUnprocessableEntity},
			Handler: route.OnBody(s.suites.Load, s.findTest),
		},
		{
			Method: http.MethodGet, Path: testsPath + "/{test}", Tag: tag, Summary: "Get a test",
			Description: "With what happened to it on each of the last 28 days.",
			Scope:       identity.ReadSuites,
			Handler:     route.On(s.loadTest, s.getTest),
		},
		{
			Method: http.MethodGet, Path: testsPath + "/{test}/executions", Tag: tag, Summary: "List recent executions of a test",
			Description: "Newest first, from the last 100 runs of the suite.",
			Scope:       identity.ReadSuites,
			Query:       route.PageParams,
			Handler:     route.On(s.loadTest, s.listExecutions),
		},
		{
			Method: http.MethodGet, Path: suitePath + "/flaky-tests", Tag: tag, Summary: "List the flaky tests of a suite",
			Description: "Tests that both passed and failed on one commit, the latest first, with what happened to each on the last 28 days.",
			Scope:       identity.ReadSuites,
			Query: append([]route.Param{
				search,
				{Name: "branch", Doc: "Only tests that were flaky on this branch."},
				{Name: "period", Doc: "When a test was last flaky: within 1hour, 4hours, 1day, 7days, 14days or 28days; 28days unless given."},
			}, route.PageParams...),
			Handler: route.On(s.suites.Load, s.listFlakyTests),
		},
	}
}

type testIdentity struct {
	ID       string  `json:"id"`
	URL      string  `json:"url"`
	WebURL   string  `json:"web_url"`
	Scope    string  `json:"scope"`
	Name     string  `json:"name"`
	Location *string `json:"location"`
	FileName *string `json:"file_name"`
}

type testView struct {
	testIdentity
	Labels []string  `json:"labels" doc:"flaky for a test that both passed and failed on one commit, and labels that people gave it."`
	State  TestState `json:"state" doc:"Whether people muted or skipped the test."`
}

func (s *Service) testView(org *identity.Organization, suite *suites.Suite, t Test) testView {
	v := testView{
		testIdentity: testIdentity{
			ID:       t.ID,
			URL:      suites.URL(s.public, org, suite.Slug, "tests", t.ID),
			WebURL:   suites.WebURL(s.public, org, suite.Slug, "tests", t.ID),
			Scope:    t.Scope,
			Name:     t.Name,
			Location: core.OrNull(t.Location),
			FileName: core.OrNull(t.FileName),
		},
		Labels: append([]string{}, t.Labels...),
		State:  t.State,
	}
	return v
}

type metricsView struct {
	Reliability *float64         `json:"reliability" doc:"The part of passed executions among those that passed or failed; null when there are none."`
	DurationAvg float64          `json:"duration_avg" doc:"Seconds."`
	DurationSum float64          `json:"duration_sum"`
	DurationMin float64          `json:"duration_min"`
	DurationMax float64          `json:"duration_max"`
	Count       int              `json:"executions_count"`
	Counts      resultCountsView `json:"executions_count_by_result"`
}

func viewMetrics(m *Metrics) metricsView {
	if m == nil {
		m = &Metrics{}
	}
	return metricsView{
		Reliability: m.Reliability(),
		DurationAvg: m.Average().Seconds(),
		DurationSum: m.Duration.Seconds(),
		DurationMin: m.Shortest.Seconds(),
		DurationMax: m.Longest.Seconds(),
		Count:       m.Total(),
		Counts:      countsView(m.Counts),
	}
}

type measuredTestView struct {
	testView
	metricsView
}

func (s *Service) listTests(r *route.Request, suite *suites.Suite) (none route.Paged[measuredTestView], err error) {
	if _, err := versionOf(r); err != nil {
		return none, err
	}
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	filter, err := labelsOf(r)
	if err != nil {
		return none, err
	}
	if filter.search, err = searchOf(r); err != nil {
		return none, err
	}
	period, err := periodOf(r)
	if err != nil {
		return none, err
	}
	by, descending, err := sortOf(r, "")
	if err != nil {
		return none, err
	}
	if err := s.foldDays(r.Context(), suite.ID); err != nil {
		return none, err
	}
	within := s.since(period)
	var tests []Test
	var metrics map[string]*Metrics
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		if by == "" {
			tests, err = listTests(q, suite.ID, filter, page.More(), page.Offset())
		} else {
			tests, err = sortedTests(q, suite.ID, filter, within, by, descending, page.More(), page.Offset())
		}
		if err != nil {
			return err
		}
		metrics, err = metricsOf(q, suite.ID, idsOf(tests), within)
		return err
	})
	return route.MapMore(tests, page, func(t Test) measuredTestView {
		return measuredTestView{s.testView(r.Org, suite, t), viewMetrics(metrics[t.ID])}
	}), err
}

func idsOf(tests []Test) []string {
	ids := make([]string, len(tests))
	for i, t := range tests {
		ids[i] = t.ID
	}
	return ids
}

// onTest is a test with its suite.
type onTest struct {
	Test
	suite *suites.Suite
}

func (s *Service) loadTest(r *route.Request) (o onTest, err error) {
	o.Test, o.suite, err = loadFrom(s, r, "test", noTest, testByID)
	return o, err
}

type testFind struct {
	Scope string `json:"scope"`
	Name  string `json:"name"`
}

func (s *Service) findTest(r *route.Request, suite *suites.Suite, body testFind) (v testView, err error) {
	if strings.TrimSpace(body.Name) == "" {
		return v, core.Problems{{Field: "name", Code: "is required"}}.Err()
	}
	var t Test
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		t, err = testByID(q, suite.ID, TestID(suite.ID, body.Scope, body.Name))
		return err
	})
	return s.testView(r.Org, suite, t), err
}

type testDayView struct {
	Date      string           `json:"date" doc:"In UTC."`
	Instances int              `json:"instances" doc:"Commits on which the test was found to be flaky that day."`
	Average   float64          `json:"duration_avg" doc:"Seconds."`
	Counts    resultCountsView `json:"executions_count_by_result"`
}

func viewDays(list []Day) []testDayView {
	views := make([]testDayView, len(list))
	for i, d := range list {
		views[i] = testDayView{Date: dateOf(d.Day), Instances: d.Flaky, Average: d.Average().Seconds(), Counts: countsView(d.Counts)}
	}
	return views
}

type detailedTestView struct {
	testView
	metricsView
	Trend []testDayView `json:"trend" doc:"The days of the last 28 on which the test was executed, oldest first."`
}

func (s *Service) getTest(r *route.Request, o onTest) (v detailedTestView, err error) {
	if err := s.foldDays(r.Context(), o.suite.ID); err != nil {
		return v, err
	}
	within := s.since(TrendDays * 24 * time.Hour)
	v.testView = s.testView(r.Org, o.suite, o.Test)
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		metrics, err := metricsOf(q, o.suite.ID, []string{o.ID}, within)
		if err != nil {
			return err
		}
		v.metricsView = viewMetrics(metrics[o.ID])
		trend, err := daysOf(q, o.suite.ID, []string{o.ID}, within)
		v.Trend = viewDays(trend[o.ID])
		return err
	})
	return v, err
}

type executionView struct {
	ID              string                 `json:"id"`
	RunID           string                 `json:"run_id"`
	Status          testreport.Result      `json:"status"`
	Timestamp       core.Time              `json:"timestamp"`
	Branch          *string                `json:"branch"`
	CommitSHA       *string                `json:"commit_sha"`
	Duration        float64                `json:"duration" doc:"Seconds."`
	FailureReason   *string                `json:"failure_reason"`
	FailureExpanded []failureExpandedView  `json:"failure_expanded,omitempty"`
	Sections        map[string]sectionView `json:"sections,omitempty" doc:"Where the execution spent time."`
	Tags            map[string]string      `json:"tags,omitempty" doc:"What the upload says about the execution."`
}

type sectionView struct {
	Count    int     `json:"count"`
	Duration float64 `json:"duration" doc:"Seconds."`
}

// historyRuns is how many of the newest runs of a suite are searched for executions of a test.
const historyRuns = 100

func (s *Service) listExecutions(r *route.Request, o onTest) (none route.Paged[executionView], err error) {
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	var found []PastExecution
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		found, err = pastExecutions(q, o.suite.ID, o.ID, min(page.Offset()+page.More(), maxHistory))
		return err
	})
	found = found[min(page.Offset(), len(found)):]
	return route.MapMore(found, page, func(e PastExecution) executionView {
		run := e.Run
		v := executionView{
			ID: e.ID(), RunID: run.ID, Status: e.Result, Timestamp: core.At(e.At()), Branch: core.OrNull(run.Branch), CommitSHA: core.OrNull(run.CommitSHA),
			Duration: e.Duration.Seconds(), FailureReason: core.OrNull(e.FailureReason), FailureExpanded: failuresView(e.Failures), Tags: e.Tags,
		}
		for name, section := range e.Sections {
			if v.Sections == nil {
				v.Sections = make(map[string]sectionView)
			}
			v.Sections[name] = sectionView{section.Count, section.Seconds}
		}
		return v
	}), err
}

// maxHistory is how many executions of a test can be listed.
const maxHistory = 2000
