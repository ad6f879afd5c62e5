package web

import (
	"testing"
	"time"

	"stackyard/internal/domain/testresults"
)

func TestChart_StacksPartsWithinItsHeight(t *testing.T) {
	for _, counts := range []testresults.Counts{
		{Passed: 1000, Failed: 1}, {Failed: 1000, Passed: 1, Skipped: 1}, {Passed: 333, Failed: 333, Unknown: 333}, {},
	} {
		c := newChart("", 1, sparkHeight)
		c.add(0, counts, counts.Total(), "", "")
		bottom := sparkHeight
		for _, part := range c.Columns[0].Parts {
			if part.Y+part.Height != bottom || part.Y < 0 || part.Height < 0 {
				t.Errorf("%+v: the part %+v does not stand on the one before, at %d", counts, part, bottom)
			}
			bottom = part.Y
		}
		if counts.Failed > 0 && c.Columns[0].Parts[0].Height < minPart {
			t.Errorf("%+v: failures are not seen", counts)
		}
	}
}

func TestChart_HasTodayAtTheRight(t *testing.T) {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	day := func(ago int) testresults.Day {
		return testresults.Day{Day: testresults.DayOf(now) - int64(ago), Metrics: testresults.Metrics{Counts: testresults.Counts{Passed: 1, Duration: time.Duration(ago+1) * time.Second}}}
	}
	c := chartDays([]testresults.Day{day(40), day(27), day(0)}, now, chartHeight)
	if len(c.Columns) != 2 || c.Columns[0].X != columnGap/2 || c.Columns[1].X != 27*columnWidth+columnGap/2 || c.Columns[1].Title != "2027-03-01: 1 passed, 0 failed, 1.0s on average" {
		t.Errorf("the columns are %+v", c.Columns)
	}
	if c.Line != "10,2 550,91" {
		t.Errorf("the line is %s", c.Line)
	}
}
