package testresults

import (
	"time"

	"stackyard/internal/domain/suites"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

type flakyTestView struct {
	testView
	Instances        int              `json:"instances" doc:"Commits on which the test both passed and failed."`
	LatestOccurrence core.Time        `json:"latest_occurrence_at"`
	LatestInstance   core.Time        `json:"most_recent_instance_at" doc:"The same as latest_occurrence_at."`
	LastResolvedAt   core.Time        `json:"last_resolved_at" doc:"Always null."`
	OwnershipTeamIDs []string         `json:"ownership_team_ids" doc:"Always empty."`
	Reliability      *float64         `json:"reliability" doc:"Within the last 28 days."`
	Counts           resultCountsView `json:"executions_count_by_result" doc:"Within the last 28 days."`
	Trend            []testDayView    `json:"trend" doc:"The days of the last 28 on which the test was executed, oldest first."`
}

func (s *Service) listFlakyTests(r *route.Request, suite *suites.Suite) (none route.Paged[flakyTestView], err error) {
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	period, err := periodOf(r)
	if err != nil {
		return none, err
	}
	filter := testFilter{flaky: true, flakySince: s.clock().Add(-period), branch: r.FormQuery("branch")}
	if filter.search, err = searchOf(r); err != nil {
		return none, err
	}
	if err := s.foldDays(r.Context(), suite.ID); err != nil {
		return none, err
	}
	var tests []Test
	var trends map[string][]Day
	err = s.results.Read(r.Context(), func(q *db.Q) error {
		if tests, err = listTests(q, suite.ID, filter, page.More(), page.Offset()); err != nil {
			return err
		}
		trends, err = daysOf(q, suite.ID, idsOf(tests), s.since(TrendDays*24*time.Hour))
		return err
	})
	return route.MapMore(tests, page, func(t Test) flakyTestView {
		all := SumOf(trends[t.ID])
		return flakyTestView{
			testView: s.testView(r.Org, suite, t), Instances: t.Flaky,
			LatestOccurrence: core.At(t.FlakyAt), LatestInstance: core.At(t.FlakyAt), OwnershipTeamIDs: []string{},
			Reliability: all.Reliability(), Counts: countsView(all.Counts), Trend: viewDays(trends[t.ID]),
		}
	}), err
}
