package pipelinepages

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"stackyard/internal/app/web/buildpages"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/rules/flow"
)

// rows returns pipelines with how they do.
func (s *Site) rows(v *pages.Visit, list []*pipelines.Pipeline) ([]pipelineRow, error) {
	ids := make([]string, len(list))
	for i, p := range list {
		ids[i] = p.ID
	}
	newest, err := s.Builds.Newest(v.Context(), v.Org.ID, ids)
	if err != nil {
		return nil, err
	}
	overviews, err := s.Builds.Overviews(v.Context(), v.Org.ID, ids)
	if err != nil {
		return nil, err
	}
	rows := make([]pipelineRow, len(list))
	for i, p := range list {
		rows[i] = pipelineRow{Pipeline: p, Path: core.PublicURL("").To(v.Org.Slug, p.Slug)}
		if b := newest[p.ID]; b != nil {
			head := buildpages.HeadOf(v, builds.OnBuild{Build: b, Pipeline: p})
			rows[i].Build = &head
		}
		o := overviews[p.ID]
		if o.DefaultBranch != nil {
			rows[i].Default = badgeOf(o.DefaultBranch.State)
		}
		if len(o.Recent) > 1 {
			rows[i].Spark = spark(s.Clock(), p, rows[i].Path, o.Recent)
		}
	}
	return rows, nil
}

// A stateBadge shows the state of a build.
type stateBadge struct{ Class, Label string }

func badgeOf(state flow.BuildState) *stateBadge {
	b := &stateBadge{"busy", string(state)}
	switch state {
	case flow.BuildPassed:
		b.Class = "good"
	case flow.BuildFailed, flow.BuildFailing:
		b.Class = "bad"
	case flow.BuildBlocked, flow.BuildCanceled, flow.BuildCanceling:
		b.Class = "warn"
	case flow.BuildSkipped, flow.BuildNotRun:
		b.Class = ""
	}
	return b
}

// spark draws recent builds: a column is as high as its build was long.
func spark(now time.Time, p *pipelines.Pipeline, path string, recent []builds.Glance) *pages.Chart {
	c := pages.NewChart("Recent builds of "+p.Name, builds.RecentGlances, pages.SparkHeight)
	lengths, longest := make([]int, len(recent)), 1
	for i, g := range recent {
		if !g.StartedAt.IsZero() {
			end := g.FinishedAt
			if end.IsZero() {
				end = now
			}
			lengths[i] = int(max(end.Sub(g.StartedAt), 0) / time.Millisecond)
		}
		longest = max(longest, lengths[i])
	}
	for i, g := range recent {
		class := "none"
		switch g.State {
		case flow.BuildPassed:
			class = "good"
		case flow.BuildFailed, flow.BuildFailing:
			class = "bad"
		}
		title := fmt.Sprintf("Build %d of %s: %s, %s", g.Number, g.Branch, g.State, pages.Length(time.Duration(lengths[i])*time.Millisecond))
		// A short build is still seen.
		c.Add(builds.RecentGlances-len(recent)+i, []pages.Share{{Class: class, Count: max(lengths[i], longest/5, 1)}}, longest, title, "")
	}
	return c
}

// favorites returns the pipelines that the visitor wants to see first.
func (s *Site) favorites(v *pages.Visit) ([]pipelineRow, error) {
	list, err := s.Pipelines.Favorites(v.Context(), pipelines.ViewerOf(v.Request))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	rows, err := s.rows(v, list)
	for i := range rows {
		rows[i].Favorite = true
	}
	return rows, err
}

// favorite adds a pipeline to the visitor's favorites or removes it.
func (s *Site) favorite(v *pages.Visit) error {
	p, err := s.Pipelines.Load(v.Request)
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	on := form.Get("on") != ""
	if err := s.Pipelines.SetFavorite(v.Context(), v.User().ID, p, on); err != nil {
		return err
	}
	if on {
		return v.Done("/"+v.Org.Slug, p.Name+" is a favorite now.")
	}
	return v.Done("/"+v.Org.Slug, p.Name+" is no favorite any more.")
}

// filterForm is the form that filters the builds of a pipeline.
type filterForm struct {
	builds.Filter
	Branch, State, Person, From, To string
	Active                          bool
	States                          []string
}

// shownStates are the states to filter by.
var shownStates = []string{"scheduled", "running", "passed", "failing", "failed", "blocked", "canceled", "skipped"}

// readFilter returns the filter and the page number in the query of the page, which has the parameters of the API.
// Fields that were left empty do not count.
func readFilter(v *pages.Visit) (f filterForm, page route.Page, err error) {
	if page, err = v.Page(); err != nil {
		return f, page, err
	}
	query, given := v.URL.Query(), url.Values{}
	for name, values := range query {
		for _, value := range values {
			if value != "" {
				given.Add(name, value)
			}
		}
	}
	hr := v.Request.Request.Clone(v.Context())
	hr.URL.RawQuery = given.Encode()
	if f.Filter, err = buildapi.ReadFilter(&route.Request{Request: hr}); err != nil {
		return f, page, err
	}
	f.Branch, f.State, f.Person, f.From, f.To = given.Get("branch"), given.Get("state"), given.Get("creator"), given.Get("created_from"), given.Get("created_to")
	f.States = shownStates
	f.Active = f.Branch+f.State+f.Person+f.From+f.To != "" || len(f.Commits) > 0
	return f, page, nil
}

// listed returns a page of the builds of a pipeline that match a filter.
func (s *Site) listed(v *pages.Visit, p *pipelines.Pipeline, f filterForm, page route.Page) ([]*builds.Build, bool, error) {
	if p.Hidden() != nil && f.Hidden() {
		return nil, false, nil // a visitor filters by what visitors do not see
	}
	if err := builds.CheckOffset(page, ""); err != nil {
		return nil, false, err
	}
	return s.Builds.Listed(v.Context(), p, f.Filter, page.Size, page.Offset())
}

// commit shows the builds of a commit.
func (s *Site) commit(v *pages.Visit) error {
	p, err := s.Pipelines.Load(v.Request)
	if err != nil {
		return err
	}
	page, err := v.Page()
	if err != nil {
		return err
	}
	commit := v.PathValue("commit")
	found, more, err := s.listed(v, p, filterForm{Filter: builds.Filter{Commits: []string{commit}}}, page)
	if err != nil {
		return err
	}
	shown := struct {
		Name, Commit, Path string
		Rows               []buildpages.Head
		Pages              []pages.PageLink
	}{p.Name, commit, core.PublicURL("").To(v.Org.Slug, p.Slug), nil, v.PageLinks(page, more, "Newer", "Older")}
	for _, b := range found {
		shown.Rows = append(shown.Rows, buildpages.HeadOf(v, builds.OnBuild{Build: b, Pipeline: p}))
	}
	return v.Show(http.StatusOK, "commit", pages.View{Title: "Commit " + commit[:min(len(commit), 10)], Section: "pipelines", Page: shown})
}
