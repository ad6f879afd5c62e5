package pages

import (
	"fmt"
	"strings"
	"time"
)

// A Chart shows counts over time: a column for each run or day, with a part for each kind. It is drawn as SVG by the
// template "chart", without script, and every column has its numbers as a title.
type Chart struct {
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

// The heights of charts and the measures of columns, in the units of their view box.
const (
	ChartHeight = 96
	SparkHeight = 24
	columnWidth = 20
	columnGap   = 4
	minPart     = 2 // so that one failure among a thousand passed tests is seen
)

// NewChart returns a chart of so many columns.
func NewChart(label string, columns, height int) *Chart {
	return &Chart{Label: label, Width: max(columns, 1) * columnWidth, Height: height}
}

// A Share is how much of a column is of one kind.
type Share struct {
	Class string // of the style sheet: good, bad or none
	Count int
}

// Add adds a column at a position. A column with a total of highest is as high as the chart.
func (c *Chart) Add(position int, shares []Share, highest int, title, path string) {
	col := column{X: position*columnWidth + columnGap/2, Width: columnWidth - columnGap, Height: c.Height, Title: title, Path: path}
	top := c.Height
	for _, share := range shares {
		if share.Count == 0 {
			continue
		}
		height := min(max(share.Count*c.Height/max(highest, 1), minPart), top)
		top -= height
		col.Parts = append(col.Parts, columnPart{share.Class, top, height})
	}
	c.Columns = append(c.Columns, col)
}

// AddLine draws a line through values at positions; the highest is at the top of the chart.
func (c *Chart) AddLine(positions []int, values []time.Duration) {
	var highest time.Duration
	for _, v := range values {
		highest = max(highest, v)
	}
	if len(values) < 2 || highest == 0 {
		return
	}
	var points []string
	for i, v := range values {
		height := time.Duration(c.Height - 4)
		points = append(points, fmt.Sprintf("%d,%d", positions[i]*columnWidth+columnWidth/2, c.Height-2-int(v*height/highest)))
	}
	c.Line = strings.Join(points, " ")
}
