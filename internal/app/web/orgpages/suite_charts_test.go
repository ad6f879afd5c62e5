package orgpages

import (
	"testing"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/testresults"
)

func TestChart_HasTodayAtTheRight(t *testing.T) {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	day := func(ago int) testresults.Day {
		return testresults.Day{Day: testresults.DayOf(now) - int64(ago), Metrics: testresults.Metrics{Counts: testresults.Counts{Passed: 1, Duration: time.Duration(ago+1) * time.Second}}}
	}
	c := chartDays([]testresults.Day{day(40), day(27), day(0)}, now, pages.ChartHeight)
	if len(c.Columns) != 2 || c.Columns[0].X != 2 || c.Columns[1].X != 27*20+2 || c.Columns[1].Title != "2027-03-01: 1 passed, 0 failed, 1.0s on average" {
		t.Errorf("the columns are %+v", c.Columns)
	}
	if c.Line != "10,2 550,91" {
		t.Errorf("the line is %s", c.Line)
	}
}
