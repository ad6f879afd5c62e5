package orgpages

import (
	"fmt"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/testresults"
)

// sharesOf returns the parts of a column for the results of tests.
func sharesOf(c testresults.Counts) []pages.Share {
	return []pages.Share{{Class: "bad", Count: c.Failed}, {Class: "good", Count: c.Passed}, {Class: "none", Count: c.Skipped + c.Pending + c.Unknown}}
}

// inWords returns counts as people read them, such as 3 passed, 1 failed.
func inWords(c testresults.Counts) string {
	text := fmt.Sprintf("%d passed, %d failed", c.Passed, c.Failed)
	if n := c.Skipped + c.Pending + c.Unknown; n > 0 {
		text += fmt.Sprintf(", %d others", n)
	}
	return text
}

// chartRuns returns a chart of runs, which are the newest first, with the newest at the right.
func chartRuns(runs []runRow) *pages.Chart {
	if len(runs) < 2 {
		return nil
	}
	highest := 0
	for _, run := range runs {
		highest = max(highest, run.Counts.Total())
	}
	c := pages.NewChart(fmt.Sprintf("Results of %d runs, the newest at the right", len(runs)), len(runs), pages.ChartHeight)
	var positions []int
	var durations []time.Duration
	for i := range runs {
		run := &runs[len(runs)-1-i]
		title := fmt.Sprintf("%s: %s, %s", run.CreatedAt.UTC().Format("2 January 15:04"), inWords(run.Counts), pages.Length(run.Counts.Duration))
		c.Add(i, sharesOf(run.Counts), highest, title, run.Path)
		positions, durations = append(positions, i), append(durations, run.Counts.Duration)
	}
	c.AddLine(positions, durations)
	return c
}

// chartDays returns a chart of the days of a test, today at the right; durations only if the chart is high.
func chartDays(days []testresults.Day, today time.Time, height int) *pages.Chart {
	if len(days) == 0 {
		return nil
	}
	highest := 0
	for _, d := range days {
		highest = max(highest, d.Total())
	}
	const shown = testresults.TrendDays
	c := pages.NewChart(fmt.Sprintf("Results of the last %d days, today at the right", shown), shown, height)
	var positions []int
	var durations []time.Duration
	for _, d := range days {
		position := shown - 1 - int(testresults.DayOf(today)-d.Day)
		if position < 0 || position >= shown {
			continue
		}
		title := fmt.Sprintf("%s: %s, %s on average", d.Date(), inWords(d.Counts), pages.Length(d.Average()))
		if d.Flaky > 0 {
			title += fmt.Sprintf(", flaky on %d commits", d.Flaky)
		}
		c.Add(position, sharesOf(d.Counts), highest, title, "")
		positions, durations = append(positions, position), append(durations, d.Average())
	}
	if height == pages.ChartHeight {
		c.AddLine(positions, durations)
	}
	return c
}
