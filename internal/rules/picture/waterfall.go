package picture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Span is when a job waited and ran. Times that have not come are zero.
type Span struct {
	Label                       string
	Class                       string // how its run looks
	Link                        string
	Runnable, Started, Finished time.Time
}

// A Waterfall is a picture of spans, one below the other, over the time of a build.
type Waterfall struct {
	Width, Height int
	// Rows are the spans, if there are few enough to tell them apart.
	Rows []WaterfallRow
	// Paths are the spans otherwise: all of one class in one path, in the syntax of SVG, and how thick its lines are.
	Paths  []WaterfallPath
	Thick  string
	Ticks  []Tick
	Waited time.Duration // sum of the time that jobs waited for agents
	Ran    time.Duration // sum of the time that they ran
}

// A WaterfallRow is one span: from X it waits for Wait units, then runs for Run.
type WaterfallRow struct {
	Span
	X, Y, Wait, Run int
	Waited, Ran     time.Duration
}

// RunX returns where the span begins to run.
func (r WaterfallRow) RunX() int { return r.X + r.Wait }

// A WaterfallPath are all lines of a class; "wait" is the time before jobs ran.
type WaterfallPath struct{ Class, D string }

// A Tick is a time at the top of a waterfall.
type Tick struct {
	X    int
	Text string
}

const (
	waterfallWidth = 1000
	waterfallTop   = 24 // height of the ticks
	rowHeight      = 26 // so that the link of its label can be touched
	// maxRows is the number of spans with rows of their own, and maxSpans the number that is drawn.
	maxRows  = 150
	maxSpans = 10_000
	// pathsHeight is the height for more spans than maxRows.
	pathsHeight = 1400
)

// DrawWaterfall draws spans in their order. Spans without a beginning are left out; those without an end last until
// now.
func DrawWaterfall(spans []Span, now time.Time) Waterfall {
	spans = slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return s.Runnable.IsZero() && s.Started.IsZero() })
	spans = spans[:min(len(spans), maxSpans)]
	w := Waterfall{Width: waterfallWidth}
	if len(spans) == 0 {
		return w
	}
	begin, end := spans[0].bounds(now)
	for _, s := range spans {
		from, to := s.bounds(now)
		begin, end = earlier(begin, from), later(end, to)
	}
	total, step := roundTotal(max(end.Sub(begin), time.Second))
	x := func(t time.Time) int { return int(float64(t.Sub(begin)) / float64(total) * waterfallWidth) }
	w.ticks(total, step)
	if len(spans) <= maxRows {
		w.rows(spans, x, now)
	} else {
		w.paths(spans, x, now)
	}
	return w
}

// bounds returns when a span begins and ends.
func (s Span) bounds(now time.Time) (from, to time.Time) {
	from, to = s.Runnable, s.Finished
	if from.IsZero() || !s.Started.IsZero() && s.Started.Before(from) {
		from = s.Started
	}
	if to.IsZero() {
		to = now
	}
	return from, later(from, to)
}

// parts returns when a span begins, begins to run, and ends.
func (s Span) parts(now time.Time) (from, start, to time.Time) {
	from, to = s.bounds(now)
	start = s.Started
	if start.IsZero() {
		start = to
	}
	return from, start, later(start, to)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (w *Waterfall) rows(spans []Span, x func(time.Time) int, now time.Time) {
	for i, s := range spans {
		from, start, to := s.parts(now)
		r := WaterfallRow{Span: s, X: x(from), Y: waterfallTop + i*rowHeight, Wait: x(start) - x(from), Run: x(to) - x(start), Waited: start.Sub(from), Ran: to.Sub(start)}
		if !s.Started.IsZero() {
			r.Run = max(r.Run, 2)
		}
		w.Waited, w.Ran = w.Waited+r.Waited, w.Ran+r.Ran
		w.Rows = append(w.Rows, r)
	}
	w.Height = waterfallTop + len(spans)*rowHeight
}

func (w *Waterfall) paths(spans []Span, x func(time.Time) int, now time.Time) {
	lines := make(map[string]*strings.Builder)
	add := func(class string, from, to int, y string) {
		if lines[class] == nil {
			lines[class] = &strings.Builder{}
		}
		fmt.Fprintf(lines[class], "M%d %sh%d", from, y, max(1, to-from))
	}
	pitch := float64(pathsHeight) / float64(len(spans))
	for i, s := range spans {
		from, start, to := s.parts(now)
		y := strconv.FormatFloat(waterfallTop+(float64(i)+.5)*pitch, 'f', 1, 64)
		if start.After(from) {
			add("wait", x(from), x(start), y)
		}
		if !s.Started.IsZero() {
			add(s.Class, x(start), x(to), y)
		}
		w.Waited, w.Ran = w.Waited+start.Sub(from), w.Ran+to.Sub(start)
	}
	classes := make([]string, 0, len(lines))
	for class := range lines {
		classes = append(classes, class)
	}
	slices.Sort(classes)
	for _, class := range classes {
		w.Paths = append(w.Paths, WaterfallPath{class, lines[class].String()})
	}
	w.Thick = strconv.FormatFloat(max(.4, pitch*.85), 'f', 2, 64)
	w.Height = waterfallTop + pathsHeight
}

// tickSteps are the distances of ticks.
var tickSteps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
	30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// roundTotal returns a time that is not shorter and a multiple of the distance of ticks, which it returns too.
func roundTotal(total time.Duration) (rounded, step time.Duration) {
	step = tickSteps[len(tickSteps)-1]
	for step < total/8 {
		step *= 2
	}
	for _, s := range tickSteps {
		if total/s < 8 {
			step = s
			break
		}
	}
	return (total + step - 1) / step * step, step
}

func (w *Waterfall) ticks(total, step time.Duration) {
	for at := time.Duration(0); at <= total; at += step {
		w.Ticks = append(w.Ticks, Tick{int(float64(at) / float64(total) * waterfallWidth), shortLength(at)})
	}
}

// shortLength formats the time of a tick.
func shortLength(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour && d%time.Minute == 0:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
}
