package picture

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func names(ids ...string) (nodes []Node) {
	for _, id := range ids {
		nodes = append(nodes, Node{ID: id, Label: id})
	}
	return nodes
}

func boxOf(t *testing.T, g Graph, id string) Box {
	t.Helper()
	i := slices.IndexFunc(g.Boxes, func(b Box) bool { return b.ID == id })
	if i < 0 {
		t.Fatalf("no box %s", id)
	}
	return g.Boxes[i]
}

func TestDrawGraph_PutsNodesRightOfWhatTheyDependOn(t *testing.T) {
	edges := []Edge{{"a", "c"}, {"b", "c"}, {"c", "d"}, {"a", "d"}, {"nothing", "d"}, {"d", "d"}}
	g := DrawGraph(names("a", "b", "c", "d"), edges)
	for _, e := range edges[:4] {
		if from, to := boxOf(t, g, e.From), boxOf(t, g, e.To); to.X <= from.X {
			t.Errorf("%s is not right of %s", e.To, e.From)
		}
	}
	if len(g.Lines) != 3 || g.Left != 0 { // d depends on a through c
		t.Errorf("there are %d lines", len(g.Lines))
	}
	for i, a := range g.Boxes {
		if a.X < 0 || a.Y < 0 || a.X+a.Width > g.Width || a.Y+a.Height > g.Height {
			t.Errorf("%s is outside of the picture", a.ID)
		}
		for _, b := range g.Boxes[i+1:] {
			if a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height {
				t.Errorf("%s covers %s", a.ID, b.ID)
			}
		}
	}
}

func TestDrawGraph_SurvivesCycles(t *testing.T) {
	g := DrawGraph(names("a", "b", "c"), []Edge{{"a", "b"}, {"b", "c"}, {"c", "a"}})
	if len(g.Boxes) != 3 {
		t.Errorf("there are %d boxes", len(g.Boxes))
	}
	if g := DrawGraph(nil, nil); len(g.Boxes) != 0 || g.Width <= 0 {
		t.Errorf("nothing is %+v", g)
	}
}

func TestDrawGraph_ContractsPoints(t *testing.T) {
	nodes := append(names("a", "b", "c"), Node{ID: "wait", Point: true})
	g := DrawGraph(nodes, []Edge{{"a", "wait"}, {"b", "wait"}, {"wait", "c"}})
	if len(g.Boxes) != 3 || len(g.Lines) != 2 {
		t.Errorf("there are %d boxes and %d lines", len(g.Boxes), len(g.Lines))
	}
}

// 4,000 steps before and after a wait are two boxes with a point between them.
func TestDrawGraph_IsSmallForLargeBuilds(t *testing.T) {
	nodes, edges := []Node{{ID: "wait", Point: true}}, []Edge{}
	for i := range 4000 {
		class := "good"
		if i == 777 {
			class = "bad"
		}
		id := fmt.Sprint(i)
		nodes = append(nodes, Node{ID: id, Label: id, Class: class})
		if i < 2000 {
			edges = append(edges, Edge{id, "wait"})
		} else {
			edges = append(edges, Edge{"wait", id})
		}
	}
	g := DrawGraph(nodes, edges)
	if len(g.Boxes) != 3 || g.Boxes[0].Label != "2000 steps" || g.Boxes[0].Class != "bad" || len(g.Lines) != 2 {
		t.Errorf("the boxes are %+v", g.Boxes)
	}
	// A chain cannot be made smaller.
	nodes, edges = nil, nil
	for i := range 4000 {
		nodes = append(nodes, Node{ID: fmt.Sprint(i)})
		edges = append(edges, Edge{fmt.Sprint(i), fmt.Sprint(i + 1)})
	}
	if g := DrawGraph(nodes, edges); len(g.Boxes) != maxDrawn || g.Left != 4000-maxDrawn {
		t.Errorf("a chain has %d boxes and %d left", len(g.Boxes), g.Left)
	}
}

func TestDrawWaterfall_ShowsWaitingAndRunning(t *testing.T) {
	zero := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return zero.Add(time.Duration(s) * time.Second) }
	w := DrawWaterfall([]Span{
		{Label: "a", Runnable: at(0), Started: at(10), Finished: at(60)},
		{Label: "b", Runnable: at(20), Started: at(50)},
		{Label: "c", Runnable: at(60)},
		{Label: "never"},
	}, at(100))
	if len(w.Rows) != 3 {
		t.Fatalf("there are %d rows", len(w.Rows))
	}
	a, b, c := w.Rows[0], w.Rows[1], w.Rows[2]
	// The width is two minutes, up to a tick.
	if a.X != 0 || a.Wait != 83 || a.Run != 417 || b.X != 166 || b.Wait != 250 || b.Run != 417 || c.X != 500 || c.Wait != 333 || c.Run != 0 {
		t.Errorf("the rows are %+v", w.Rows)
	}
	if w.Waited != 80*time.Second || w.Ran != 100*time.Second || len(w.Ticks) < 3 {
		t.Errorf("they waited %s and ran %s, with %d ticks", w.Waited, w.Ran, len(w.Ticks))
	}
	if w := DrawWaterfall(nil, at(0)); w.Rows != nil || w.Paths != nil {
		t.Errorf("nothing is %+v", w)
	}
}

func TestDrawWaterfall_IsSmallForLargeBuilds(t *testing.T) {
	zero := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var spans []Span
	for i := range 4000 {
		start := zero.Add(time.Duration(i) * time.Second)
		spans = append(spans, Span{Class: "good", Runnable: zero, Started: start, Finished: start.Add(time.Minute)})
	}
	w := DrawWaterfall(spans, zero)
	size := 0
	for _, p := range w.Paths {
		size += len(p.D)
	}
	if len(w.Paths) != 2 || size > 150_000 || len(w.Rows) != 0 {
		t.Errorf("%d paths have %d bytes", len(w.Paths), size)
	}
}
