package buildpages

import (
	"cmp"
	"net/http"
	"strings"

	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/picture"
)

func (s *Site) pictureRoutes() []route.Route {
	return append(s.Live.Page(buildPath+"/graph", pages.Within, s.graph, s.watchBuild), s.Live.Page(buildPath+"/waterfall", pages.Within, s.waterfall, s.watchBuild)...)
}

// watchBuild says when a build changes.
func (s *Site) watchBuild(v *pages.Visit) (live.Watch, error) {
	o, err := s.Builds.LoadOnBuild(v.Request)
	if err != nil {
		return live.Watch{}, err
	}
	return live.Watch{Topics: []string{builds.Topic(o.ID)}}, nil
}

// A Tab links to a page of a build.
type Tab struct {
	Path, Text string
	Here       bool
}

// tabs returns links to the pages of a build.
func (h Head) tabs(here string) []Tab {
	return []Tab{
		{h.Path, "Jobs", here == "jobs"},
		{h.Path + "/graph", "Graph", here == "graph"},
		{h.Path + "/waterfall", "Waterfall", here == "waterfall"},
		{h.Path + "/artifacts", "Artifacts", here == "artifacts"},
	}
}

// A picturePage is the data of a page with a picture of a build.
type picturePage struct {
	Head
	Tabs      []Tab
	Graph     *picture.Graph
	Waterfall *picture.Waterfall
	Jobs      int
}

// maxLabel is how many characters of a label fit into a box.
const maxLabel = 24

// graph shows the steps of a build and what they depend on.
func (s *Site) graph(v *pages.Visit) error {
	o, err := s.Builds.LoadOnBuild(v.Request)
	if err != nil {
		return err
	}
	steps, depends, err := s.Builds.Graph(v.Context(), o.Build)
	if err != nil {
		return err
	}
	head := HeadOf(v, o)
	nodes := make([]picture.Node, len(steps))
	for i, step := range steps {
		nodes[i] = head.node(step)
	}
	edges := make([]picture.Edge, len(depends))
	for i, d := range depends {
		edges[i] = picture.Edge{From: d[1], To: d[0]}
	}
	drawn := picture.DrawGraph(nodes, edges)
	return s.showPicture(v, "Graph", picturePage{Head: head, Tabs: head.tabs("graph"), Graph: &drawn, Jobs: len(steps)})
}

// node returns a step as it is drawn. Visitors do not see commands and keys, which stand in for labels.
func (h Head) node(step builds.PicturedStep) picture.Node {
	label := step.Label
	switch {
	case step.Kind == definition.KindWait:
		label = cmp.Or(label, "Wait")
	case !h.Pipeline.Visited():
		label = cmp.Or(label, step.Name)
	}
	label = strings.TrimSpace(placeholders.ReplaceAllString(label, ""))
	n := picture.Node{ID: step.ID, Label: shorten(markdown.Emoji(cmp.Or(label, string(step.Kind)))), Point: step.Connects()}
	if shares := sharesOf(step.Counts); len(shares) > 0 {
		n.Class = (&unit{Shares: shares}).Badge().Class
		var texts []string
		for _, s := range shares {
			texts = append(texts, s.Text())
		}
		n.Note = strings.Join(texts, ", ")
	}
	if step.Kind != definition.KindWait {
		n.Link = selection{Step: step.ID}.path(h.Path)
	}
	return n
}

// shorten cuts a text so that it fits into a box.
func shorten(text string) string {
	if short := core.Cut(text, maxLabel); short != text {
		return short + "…"
	}
	return text
}

// waterfall shows when the jobs of a build waited and ran.
func (s *Site) waterfall(v *pages.Visit) error {
	o, err := s.Builds.LoadOnBuild(v.Request)
	if err != nil {
		return err
	}
	jobs, err := s.Builds.Times(v.Context(), o.Build)
	if err != nil {
		return err
	}
	head := HeadOf(v, o)
	spans := make([]picture.Span, len(jobs))
	for i, j := range jobs {
		label := j.Label
		if !o.Pipeline.Visited() {
			label = cmp.Or(label, j.Key)
		}
		label = cmp.Or(label, "Job")
		spans[i] = picture.Span{Label: shorten(markdown.Emoji(label)) + j.Part, Class: classOf(j.State), Link: head.Path + "/jobs/" + j.ID, Runnable: j.RunnableAt, Started: j.StartedAt, Finished: j.FinishedAt}
	}
	drawn := picture.DrawWaterfall(spans, s.Clock())
	return s.showPicture(v, "Waterfall", picturePage{Head: head, Tabs: head.tabs("waterfall"), Waterfall: &drawn, Jobs: len(jobs)})
}

// classOf returns the class of the share of a state.
func classOf(state flow.JobState) string {
	for _, s := range sharesOf(map[flow.JobState]int{state: 1}) {
		return s.Class
	}
	return ""
}

func (s *Site) showPicture(v *pages.Visit, name string, page picturePage) error {
	return v.Show(http.StatusOK, "picture", pages.View{Title: name + " of " + page.Pipeline.Name + " #" + itoa(page.Number), Section: "builds", Icon: page.Favicon(), Page: page})
}
