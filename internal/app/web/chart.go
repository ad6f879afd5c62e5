package web

import (
	"fmt"
	"strings"
	"time"

	"stackyard/internal/domain/testresults"
)

// A chart shows what happened to tests over time: a column for each run or day, with a part for each result. It is
// drawn as SVG by the template "chart", without script, and every column has its numbers as a title.
type chart struct {
	Label   string // for people who do not see it
	Width   int
	Height  int
	Columns []column
	Line    string // the points of a line over the columns, such as durations; "": none
}

// A column is one run or day.
type column struct {
	X, Width int
	Height   int    // of the chart
	Title    string // what it shows, in words
	Path     string // where it leads; "": nowhere
	Parts    []columnPart
}

// A columnPart is the part of a column for one result, on top of those before it.
type columnPart struct {
	Class     string
	Y, Height int
}

// The measures of charts, in the units of their view box.
const (
	chartHeight = 96
	sparkHeight = 24
	columnWidth = 20
	columnGap   = 4
	minPart     = 2 // so that one failure among a thousand passed tests is seen
)

// newChart returns a chart of so many columns.
func newChart(label string, columns, height int) *chart {
	return &chart{Label: label, Width: max(columns, 1) * columnWidth, Height: height}
}

// add adds a column at a position. A column of highest executions is as high as the chart.
func (c *chart) add(position int, counts testresults.Counts, highest int, title, path string) {
	col := column{X: position*columnWidth + columnGap/2, Width: columnWidth - columnGap, Height: c.Height, Title: title, Path: path}
	top := c.Height
	for _, part := range []struct {
		class string
		n     int
	}{{"bad", counts.Failed}, {"good", counts.Passed}, {"none", counts.Skipped + counts.Pending + counts.Unknown}} {
		if part.n == 0 {
			continue
		}
		height := min(max(part.n*c.Height/max(highest, 1), minPart), top)
		top -= height
		col.Parts = append(col.Parts, columnPart{part.class, top, height})
	}
	c.Columns = append(c.Columns, col)
}

// addLine draws a line through values at positions; the highest is at the top of the chart.
func (c *chart) addLine(positions []int, values []time.Duration) {
	var highest time.Duration
	for _, v := range values {
		highest = max(highest, v)
	}
	if len(values) < 2 || highest == 0 {
		return
	}
	var points []string
	for i, v := range values {
		room := time.Duration(c.Height - 4)
		points = append(points, fmt.Sprintf("%d,%d", positions[i]*columnWidth+columnWidth/2, c.Height-2-int(v*room/highest)))
	}
	c.Line = strings.Join(points, " ")
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
func chartRuns(runs []runRow) *chart {
	if len(runs) < 2 {
		return nil
	}
	highest := 0
	for _, run := range runs {
		highest = max(highest, run.Counts.Total())
	}
	c := newChart(fmt.Sprintf("Results of %d runs, the newest at the right", len(runs)), len(runs), chartHeight)
	var positions []int
	var durations []time.Duration
	for i := range runs {
		run := &runs[len(runs)-1-i]
		title := fmt.Sprintf("%s: %s, %s", run.CreatedAt.UTC().Format("2 January 15:04"), inWords(run.Counts), length(run.Counts.Duration))
		c.add(i, run.Counts, highest, title, run.Path)
		positions, durations = append(positions, i), append(durations, run.Counts.Duration)
	}
	c.addLine(positions, durations)
	return c
}

// chartDays returns a chart of the days of a test, today at the right; durations only if the chart is high.
func chartDays(days []testresults.Day, today time.Time, height int) *chart {
	if len(days) == 0 {
		return nil
	}
	highest := 0
	for _, d := range days {
		highest = max(highest, d.Total())
	}
	const shown = testresults.TrendDays
	c := newChart(fmt.Sprintf("Results of the last %d days, today at the right", shown), shown, height)
	var positions []int
	var durations []time.Duration
	for _, d := range days {
		position := shown - 1 - int(testresults.DayOf(today)-d.Day)
		if position < 0 || position >= shown {
			continue
		}
		title := fmt.Sprintf("%s: %s, %s on average", d.Date(), inWords(d.Counts), length(d.Average()))
		if d.Flaky > 0 {
			title += fmt.Sprintf(", flaky on %d commits", d.Flaky)
		}
		c.add(position, d.Counts, highest, title, "")
		positions, durations = append(positions, position), append(durations, d.Average())
	}
	if height == chartHeight {
		c.addLine(positions, durations)
	}
	return c
}
