package web

import (
	"net/http"
	"net/url"
	"strconv"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/schedules"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Site) pipelineRoutes() []route.Route {
	return []route.Route{
		s.get("/{org}", within(s.organization)),
		s.get("/{org}/{pipeline}", within(s.pipeline)),
		s.get("/{org}/{pipeline}/builds", within(s.pipeline)),
		s.post("/{org}/{pipeline}/builds", signedIn(within(s.newBuild))),
	}
}

// A pipelineRow is a pipeline in a list, with its latest build.
type pipelineRow struct {
	*pipelines.Pipeline
	Path  string     // of its page
	Build *buildHead // nil: none
}

// pipelineList is a page of an organization's pipelines.
type pipelineList struct {
	Org   *identity.Organization
	Rows  []pipelineRow
	Total int
	Name  string // filter by name
	Pages []pageLink
	// Suites is the path of the test suites; "" for visitors who are not members.
	Suites string
}

// organization shows the pipelines of an organization that the visitor can see.
func (s *Site) organization(v *visit) error {
	page, err := v.Page()
	if err != nil {
		return err
	}
	l, err := s.pipelinesOf(v, v.FormQuery("name"), page)
	if err != nil {
		return err
	}
	if l.Total == 0 && v.Member == nil {
		return errNothing // nothing here is public
	}
	if v.Member != nil {
		l.Suites = suitesPage(v)
	}
	l.Pages = v.pageLinks(page, page.Number*page.Size < l.Total, "Previous", "Next")
	return v.show(http.StatusOK, "pipelines", view{Title: v.Org.Name, Section: "home", Page: l})
}

// pipelinesOf returns pipelines of the visit's organization with their latest builds.
func (s *Site) pipelinesOf(v *visit, name string, page route.Page) (*pipelineList, error) {
	found, total, err := s.Pipelines.List(v.Context(), pipelines.ViewerOf(v.Request), name, page)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(found))
	for i, p := range found {
		ids[i] = p.ID
	}
	newest, err := s.Builds.Newest(v.Context(), v.Org.ID, ids)
	if err != nil {
		return nil, err
	}
	l := &pipelineList{Org: v.Org, Total: total, Name: name}
	for _, p := range found {
		row := pipelineRow{Pipeline: p, Path: core.PublicURL("").To(v.Org.Slug, p.Slug)}
		if b := newest[p.ID]; b != nil {
			head := headOf(v, builds.OnBuild{Build: b, Pipeline: p})
			row.Build = &head
		}
		l.Rows = append(l.Rows, row)
	}
	return l, nil
}

// pipelinePage is the data of a pipeline's page.
type pipelinePage struct {
	*pipelines.Pipeline
	Org       *identity.Organization
	Rows      []buildHead
	Branch    string // filter by branch
	Schedules []schedules.Schedule
	Pages     []pageLink
	MayBuild  bool
	Form      buildForm
	Problems  problems
}

// A buildForm is the form for a new build.
type buildForm struct {
	Commit, Branch, Message string
	Open                    bool
}

// Path returns the path of the page.
func (p pipelinePage) Path() string { return core.PublicURL("").To(p.Org.Slug, p.Slug) }

// pipeline shows the builds of a pipeline.
func (s *Site) pipeline(v *visit) error {
	p, err := s.Pipelines.Load(v.Request)
	if err != nil {
		return err
	}
	return s.showPipeline(v, http.StatusOK, p, buildForm{Commit: "HEAD", Branch: p.DefaultBranch}, nil)
}

func (s *Site) showPipeline(v *visit, status int, p *pipelines.Pipeline, form buildForm, wrong problems) error {
	page, err := v.Page()
	if err != nil {
		return err
	}
	branch := v.FormQuery("branch")
	recent, more, err := s.Builds.Recent(v.Context(), p, branch, page)
	if err != nil {
		return err
	}
	planned, err := s.Schedules.Of(v.Context(), p)
	if err != nil {
		return err
	}
	shown := pipelinePage{Pipeline: p, Schedules: planned, Org: v.Org, Branch: branch, Pages: v.pageLinks(page, more, "Newer", "Older"), Form: form, Problems: wrong}
	shown.MayBuild = v.session != nil && !p.Archived() && p.Permits(v.Request, identity.BuildPipeline)
	for _, b := range recent {
		shown.Rows = append(shown.Rows, headOf(v, builds.OnBuild{Build: b, Pipeline: p}))
	}
	return v.show(status, "pipeline", view{Title: p.Name, Section: "home", Page: shown})
}

// newBuild creates a build.
func (s *Site) newBuild(v *visit) error {
	p, err := s.Pipelines.Load(v.Request)
	if err == nil && !p.Permits(v.Request, identity.BuildPipeline) {
		err = core.Errorf(core.Forbidden, "You can view this pipeline but not build it. Ask an administrator for access.")
	}
	if err != nil {
		return err
	}
	form, err := v.ReadForm()
	if err != nil {
		return err
	}
	entered := buildForm{Commit: form.Get("commit"), Branch: form.Get("branch"), Message: form.Get("message"), Open: true}
	b, err := s.BuildAPI.CreateFromPage(v.Request, p, entered.Commit, entered.Branch, entered.Message)
	if wrong, ok := problemsOf(err); ok {
		return s.showPipeline(v, http.StatusUnprocessableEntity, p, entered, wrong)
	}
	if err != nil {
		return err
	}
	return v.done(pathOf(v.Org, p.Slug, b.Number), "Build created.")
}

// pageLinks returns links to the pages before and after the current one.
func (v *visit) pageLinks(page route.Page, more bool, before, after string) []pageLink {
	link := func(number int, words string) pageLink {
		query := v.URL.Query()
		query.Set("page", strconv.Itoa(number))
		return pageLink{Path: (&url.URL{Path: v.URL.Path, RawQuery: query.Encode()}).String(), Text: words}
	}
	var links []pageLink
	if page.Number > 1 {
		links = append(links, link(page.Number-1, before))
	}
	if more {
		links = append(links, link(page.Number+1, after))
	}
	return links
}
