package testresults

import (
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

type preflightView struct {
	Tests preflightTestsView `json:"tests"`
}

type preflightTestsView struct {
	Runs     map[string]preflightRunView `json:"runs" doc:"By id."`
	Failures []preflightFailureView      `json:"failures"`
}

type preflightRunView struct {
	Suite   preflightSuiteView `json:"suite"`
	Passed  int                `json:"passed"`
	Failed  int                `json:"failed"`
	Skipped int                `json:"skipped"`
}

type preflightSuiteView struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
}

type preflightFailureView struct {
	RunID         string             `json:"run_id"`
	SuiteName     string             `json:"suite_name"`
	SuiteSlug     string             `json:"suite_slug"`
	Name          string             `json:"name"`
	Location      string             `json:"location"`
	FailureReason string             `json:"failure_reason"`
	LatestFail    *buildTestFailView `json:"latest_fail,omitempty"`
}

// preflightFailures is how many failed tests a summary has.
const preflightFailures = 100

func (s *Service) getPreflight(r *route.Request, o onBuild) (v preflightView, err error) {
	filter, err := buildFilterOf(r)
	if err != nil {
		return v, err
	}
	v.Tests = preflightTestsView{Runs: map[string]preflightRunView{}, Failures: []preflightFailureView{}}
	runs := make(map[int64]Run)
	for _, run := range o.runs {
		suite := o.suites[run.SuiteID]
		runs[run.seq] = run
		v.Tests.Runs[run.ID] = preflightRunView{preflightSuiteView{suite.ID, suite.Slug, suite.Name}, run.Counts.Passed, run.Counts.Failed, run.Counts.Skipped}
	}
	if r.FormQuery("result") == "" {
		filter.having = resultConditions["failed"]
	}
	details := filter.latestFail
	filter.latestFail, filter.executions = true, false
	var tests []buildTest
	var failed map[string][]Execution
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		if tests, err = buildTests(q, o.seqs(), filter, preflightFailures, 0); err != nil {
			return err
		}
		failed, err = include(q, o.seqs(), tests, filter)
		return err
	})
	for _, t := range tests {
		if len(failed[t.ID]) == 0 {
			continue
		}
		e, suite := failed[t.ID][0], o.suites[t.SuiteID]
		f := preflightFailureView{
			RunID: runs[e.run].ID, SuiteName: suite.Name, SuiteSlug: suite.Slug,
			Name: t.FullName(), Location: t.Location, FailureReason: e.FailureReason,
		}
		if details {
			f.LatestFail = &buildTestFailView{e.ID(), core.At(e.At()), e.Duration.Seconds(), core.OrNull(e.FailureReason), failuresView(e.Failures)}
		}
		v.Tests.Failures = append(v.Tests.Failures, f)
	}
	return v, err
}
