// Package picture computes pictures of builds: the graph of their steps (graph.go), and when their jobs waited and ran
// (waterfall.go). It knows no colors and writes no markup. Work and result are bounded for builds of any size.
package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Node is a step in a graph.
type Node struct {
	ID    string
	Label string
	Class string // how it looks
	Link  string
	Note  string // below the label
	Point bool   // it only connects others
	Steps int    // number of steps that it stands for
}

// An Edge leads from a node to one that depends on it, by their ids.
type Edge struct{ From, To string }

// A Graph is a picture of nodes in columns, each to the right of those it depends on.
type Graph struct {
	Width, Height int
	Boxes         []Box
	Lines         []string // paths between boxes, in the syntax of SVG
	Left          int      // number of nodes that did not fit
}

// A Box is a node at its place.
type Box struct {
	Node
	X, Y, Width, Height int
}

const (
	boxWidth, boxHeight = 190, 40
	columnGap, rowGap   = 56, 14
	margin              = 12
	// maxBoxes is the number of nodes above which nodes with the same neighbors become one, maxDrawn the number that
	// is drawn at all, and maxLines limits the lines.
	maxBoxes = 60
	maxDrawn = 300
	maxLines = 1500
	// maxContracted is how many edges may replace a point.
	maxContracted = 30
)

// worst orders classes: of nodes that become one, the first decides how it looks.
var worst = []string{"bad", "busy", "warn", "", "good"}

// graph is a graph while it is computed: nodes by their index.
type graph struct {
	nodes  []Node
	before []map[int]bool
	after  []map[int]bool
	gone   []bool
}

// DrawGraph lays out a graph. Edges to unknown nodes are left out, and of a cycle those that close it.
func DrawGraph(nodes []Node, edges []Edge) Graph {
	g := newGraph(nodes, edges)
	g.contract()
	if g.count() > maxBoxes {
		g.merge()
	}
	columns := g.columns()
	if g.count() <= maxDrawn {
		g.reduce(columns)
	}
	var picture Graph
	drawn := 0
	for i, column := range columns {
		if room := max(0, maxDrawn-drawn); len(column) > room {
			picture.Left += len(column) - room
			columns[i] = column[:room]
		}
		drawn += len(columns[i])
	}
	g.order(columns)
	g.place(columns, &picture)
	return picture
}

func newGraph(nodes []Node, edges []Edge) *graph {
	g := &graph{nodes: slices.Clone(nodes), before: make([]map[int]bool, len(nodes)), after: make([]map[int]bool, len(nodes)), gone: make([]bool, len(nodes))}
	index := make(map[string]int, len(nodes))
	for i := range g.nodes {
		index[g.nodes[i].ID] = i
		g.nodes[i].Steps = max(1, g.nodes[i].Steps)
		g.before[i], g.after[i] = map[int]bool{}, map[int]bool{}
	}
	for _, e := range edges {
		from, ok := index[e.From]
		to, known := index[e.To]
		if ok && known && from != to {
			g.link(from, to)
		}
	}
	return g
}

func (g *graph) link(from, to int) { g.after[from][to], g.before[to][from] = true, true }

func (g *graph) remove(i int) {
	for other := range g.before[i] {
		delete(g.after[other], i)
	}
	for other := range g.after[i] {
		delete(g.before[other], i)
	}
	g.before[i], g.after[i], g.gone[i] = nil, nil, true
}

func (g *graph) count() (n int) {
	for _, gone := range g.gone {
		if !gone {
			n++
		}
	}
	return n
}

// contract replaces points by edges between their neighbors, if these are few.
func (g *graph) contract() {
	for i, n := range g.nodes {
		if !n.Point || len(g.before[i])*len(g.after[i]) > maxContracted {
			continue
		}
		before, after := g.before[i], g.after[i]
		g.remove(i)
		for from := range before {
			for to := range after {
				if from != to {
					g.link(from, to)
				}
			}
		}
	}
}

// merge makes one node of all nodes with the same neighbors.
func (g *graph) merge() {
	first := make(map[string]int)
	for i := range g.nodes {
		if g.gone[i] {
			continue
		}
		key := signature(g.before[i]) + "|" + signature(g.after[i])
		at, ok := first[key]
		if !ok {
			first[key] = i
			continue
		}
		n := &g.nodes[at]
		n.Steps += g.nodes[i].Steps
		if slices.Index(worst, g.nodes[i].Class) < slices.Index(worst, n.Class) {
			n.Class = g.nodes[i].Class
		}
		g.remove(i)
	}
	for i := range g.nodes {
		if n := &g.nodes[i]; n.Steps > 1 && !n.Point {
			n.Label, n.Link, n.Note = fmt.Sprintf("%d steps", n.Steps), "", "the first is "+n.Label
		}
	}
}

// signature describes a set of nodes.
func signature(set map[int]bool) string {
	list := sorted(set)
	var b strings.Builder
	for _, i := range list {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.String()
}

func sorted(set map[int]bool) []int {
	list := make([]int, 0, len(set))
	for i := range set {
		list = append(list, i)
	}
	slices.Sort(list)
	return list
}

// columns puts each node right of all nodes that it depends on. Nodes of a cycle are put where the cycle is entered.
func (g *graph) columns() [][]int {
	missing := make([]int, len(g.nodes))
	depth := make([]int, len(g.nodes))
	var ready []int
	left := 0
	for i := range g.nodes {
		if g.gone[i] {
			continue
		}
		left++
		if missing[i] = len(g.before[i]); missing[i] == 0 {
			ready = append(ready, i)
		}
	}
	var columns [][]int
	done := make([]bool, len(g.nodes))
	for next := 0; left > 0; {
		if len(ready) == 0 { // a cycle: go on with its first node
			for done[next] || g.gone[next] {
				next++
			}
			ready = append(ready, next)
		}
		i := ready[0]
		ready = ready[1:]
		if done[i] {
			continue
		}
		done[i] = true
		left--
		for len(columns) <= depth[i] {
			columns = append(columns, nil)
		}
		columns[depth[i]] = append(columns[depth[i]], i)
		for _, j := range sorted(g.after[i]) {
			if done[j] {
				continue
			}
			depth[j] = max(depth[j], depth[i]+1)
			if missing[j]--; missing[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	for _, column := range columns {
		slices.Sort(column) // as they were given
	}
	return columns
}

// reduce removes edges to nodes that are also reached through others.
func (g *graph) reduce(columns [][]int) {
	reached := make([]map[int]bool, len(g.nodes)) // by each node, without itself
	for c := len(columns) - 1; c >= 0; c-- {
		for _, i := range columns[c] {
			reached[i] = map[int]bool{}
			for j := range g.after[i] {
				for k := range reached[j] {
					reached[i][k] = true
				}
			}
			for j := range g.after[i] {
				if reached[i][j] {
					delete(g.after[i], j)
					delete(g.before[j], i)
				}
			}
			for j := range g.after[i] {
				reached[i][j] = true
			}
		}
	}
}

// order moves nodes near those they are connected with, so that fewer lines cross.
func (g *graph) order(columns [][]int) {
	place := make([]float64, len(g.nodes))
	set := func(column []int) {
		for y, i := range column {
			place[i] = float64(y) - float64(len(column))/2
		}
	}
	for _, column := range columns {
		set(column)
	}
	sweep := func(column []int, neighbors []map[int]bool) {
		middle := make(map[int]float64, len(column))
		for _, i := range column {
			sum := 0.0
			for other := range neighbors[i] {
				sum += place[other]
			}
			middle[i] = place[i]
			if n := len(neighbors[i]); n > 0 {
				middle[i] = sum / float64(n)
			}
		}
		slices.SortStableFunc(column, func(a, b int) int { return cmp.Or(cmp.Compare(middle[a], middle[b]), cmp.Compare(a, b)) })
		set(column)
	}
	for range 3 {
		for _, column := range columns {
			sweep(column, g.before)
		}
		for i := len(columns) - 1; i >= 0; i-- {
			sweep(columns[i], g.after)
		}
	}
}

// place computes the boxes and the lines between them.
func (g *graph) place(columns [][]int, picture *Graph) {
	tallest := 0
	for _, column := range columns {
		tallest = max(tallest, len(column))
	}
	picture.Height = max(1, tallest)*(boxHeight+rowGap) - rowGap + 2*margin
	picture.Width = max(1, len(columns))*(boxWidth+columnGap) - columnGap + 2*margin
	at := make(map[int]Box)
	for x, column := range columns {
		top := (picture.Height - len(column)*(boxHeight+rowGap) + rowGap) / 2
		for y, i := range column {
			b := Box{Node: g.nodes[i], X: margin + x*(boxWidth+columnGap), Y: top + y*(boxHeight+rowGap), Width: boxWidth, Height: boxHeight}
			if b.Point {
				b.X, b.Y, b.Width, b.Height = b.X+boxWidth/2, b.Y+boxHeight/2, 0, 0
			}
			at[i] = b
			picture.Boxes = append(picture.Boxes, b)
		}
	}
	for _, column := range columns {
		for _, i := range column {
			for _, j := range sorted(g.after[i]) {
				to, ok := at[j]
				if from := at[i]; ok && len(picture.Lines) < maxLines && to.X > from.X {
					picture.Lines = append(picture.Lines, line(from, to))
				}
			}
		}
	}
}

// line returns the path from the right of a box to the left of another.
func line(from, to Box) string {
	x, y := from.X+from.Width, from.Y+from.Height/2
	endX, endY := to.X, to.Y+to.Height/2
	bend := min(columnGap, (endX-x)/2+8)
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y, x+bend, y, endX-bend, endY, endX, endY)
}
