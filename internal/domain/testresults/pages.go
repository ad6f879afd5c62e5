package testresults

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// Runs returns a page of the runs of a suite, newest first, and whether there are more; those of a branch if that is not
// "".
func (s *Service) Runs(ctx context.Context, suiteID, branch string, page route.Page) (runs []Run, more bool, err error) {
	err = s.results.Read(ctx, func(q *db.Q) error {
		runs, err = listRuns(q, suiteID, "", branch, page.More(), page.Offset())
		return err
	})
	more = len(runs) > page.Size
	return runs[:min(len(runs), page.Size)], more, err
}

// A TrendTest is a test with the days on which it was executed lately, oldest first.
type TrendTest struct {
	Test
	Days []Day
}

// trends returns tests that a query returned with their days, a page of them and whether there are more.
func (s *Service) trends(q *db.Q, suiteID string, tests []Test, size int, err error) (found []TrendTest, more bool, _ error) {
	if err != nil {
		return nil, false, err
	}
	more = len(tests) > size
	tests = tests[:min(len(tests), size)]
	days, err := daysOf(q, suiteID, idsOf(tests), s.since(TrendDays*24*time.Hour))
	for _, t := range tests {
		found = append(found, TrendTest{t, days[t.ID]})
	}
	return found, more, err
}

// FlakyTests returns the tests of a suite that were flaky within the days of a trend, the latest first.
func (s *Service) FlakyTests(ctx context.Context, suiteID string, limit int) (tests []TrendTest, err error) {
	if err := s.foldDays(ctx, suiteID); err != nil {
		return nil, err
	}
	f := testFilter{flaky: true, flakySince: s.clock().AddDate(0, 0, -TrendDays)}
	err = s.results.Read(ctx, func(q *db.Q) error {
		list, err := listTests(q, suiteID, f, limit, 0)
		tests, _, err = s.trends(q, suiteID, list, limit, err)
		return err
	})
	return tests, err
}

// Tests returns a page of the tests of a suite whose scope, name or location has a text, and whether there are more;
// sorted by a metric of the days of a trend, or by scope and name if that is "".
func (s *Service) Tests(ctx context.Context, suiteID, search, by string, descending bool, page route.Page) (tests []TrendTest, more bool, err error) {
	if len(search) > maxSearch {
		return nil, false, nil
	}
	if err := s.foldDays(ctx, suiteID); err != nil {
		return nil, false, err
	}
	err = s.results.Read(ctx, func(q *db.Q) error {
		var list []Test
		if by == "" {
			list, err = listTests(q, suiteID, testFilter{search: search}, page.More(), page.Offset())
		} else {
			list, err = sortedTests(q, suiteID, testFilter{search: search}, s.since(TrendDays*24*time.Hour), by, descending, page.More(), page.Offset())
		}
		tests, more, err = s.trends(q, suiteID, list, page.Size, err)
		return err
	})
	return tests, more, err
}

// SumOf returns what happened on all of the days.
func SumOf(days []Day) Metrics {
	var sum dayCount
	for _, d := range days {
		sum.add(&dayCount{Metrics: d.Metrics})
	}
	return sum.Metrics
}

// Run returns a run of a suite with a page of its failed executions, or a NotFound error.
func (s *Service) Run(ctx context.Context, suiteID, id string, page route.Page) (run Run, failed []FailedExecution, err error) {
	if _, ok := core.ParseID(id); !ok {
		return run, nil, core.Errorf(core.NotFound, noRun)
	}
	err = s.results.Read(ctx, func(q *db.Q) error {
		if run, err = runByID(q, suiteID, id); err != nil {
			return err
		}
		failed, err = failedExecutions(q, run.seq, page.Size, page.Offset())
		return err
	})
	return run, failed, err
}

// A History is what happened to a test lately.
type History struct {
	Test
	Days       []Day
	Executions []PastExecution
}

// A PastExecution is an execution with its run.
type PastExecution struct {
	Execution
	Run Run
}

// History returns a test of a suite with its days and its newest executions, or a NotFound error.
func (s *Service) History(ctx context.Context, suiteID, id string, limit int) (h History, err error) {
	if _, ok := core.ParseID(id); !ok {
		return h, core.Errorf(core.NotFound, noTest)
	}
	if err := s.foldDays(ctx, suiteID); err != nil {
		return h, err
	}
	err = s.results.Read(ctx, func(q *db.Q) error {
		h = History{}
		if h.Test, err = testByID(q, suiteID, id); err != nil {
			return err
		}
		days, err := daysOf(q, suiteID, []string{id}, s.since(TrendDays*24*time.Hour))
		if err != nil {
			return err
		}
		h.Days = days[id]
		h.Executions, err = pastExecutions(q, suiteID, id, limit)
		return err
	})
	return h, err
}

// pastExecutions returns the newest executions of a test, from the newest runs of its suite.
func pastExecutions(q *db.Q, suiteID, testID string, limit int) ([]PastExecution, error) {
	list, err := listRuns(q, suiteID, "", "", historyRuns, 0)
	if err != nil {
		return nil, err
	}
	runs, seqs := make(map[int64]Run), make([]int64, len(list))
	for i, run := range list {
		seqs[i], runs[run.seq] = run.seq, run
	}
	found, err := testExecutions(q, seqs, []string{testID}, limit, "TRUE")
	past := make([]PastExecution, len(found))
	for i, e := range found {
		past[i] = PastExecution{e, runs[e.run]}
	}
	return past, err
}

// DayOf returns the day of a time, as [Day] counts days.
func DayOf(t time.Time) int64 { return dayOf(t) }

// Date returns the day as a date, such as 2026-01-02.
func (d Day) Date() string { return dateOf(d.Day) }
