package pipelinepages

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/app/web/buildpages"
	"stackyard/internal/app/web/live"
	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/buildapi"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/schedules"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the routes of the pages.
func (s *Site) Routes() []route.Route {
	return append(slices.Concat(s.manageRoutes(),
		s.Live.Page("/{org}", pages.Within, s.organization, s.watchPipelines),
		s.Live.Page("/organizations/{org}/builds", pages.MembersOnly, s.allBuilds, s.watchAll),
		s.Live.Page("/{org}/{pipeline}", pages.Within, s.pipeline, s.watchBuilds),
		s.Live.Page("/{org}/{pipeline}/builds", pages.Within, s.pipeline, s.watchBuilds),
		s.Live.Page("/{org}/{pipeline}/commits/{commit}", pages.Within, s.commit, s.watchBuilds)),
		s.Post("/{org}/{pipeline}/builds", pages.SignedIn(pages.Within(s.newBuild))),
		s.Post("/{org}/{pipeline}/favorite", pages.SignedIn(pages.Within(s.favorite))),
	)
}

// watchPipelines says when the list of pipelines changes. Favorites are the visitor's own.
func (s *Site) watchPipelines(v *pages.Visit) (live.Watch, error) {
	w, err := s.watchAll(v)
	if err != nil || v.Session == nil {
		return w, err
	}
	favorites, err := s.Pipelines.Favorites(v.Context(), pipelines.ViewerOf(v.Request))
	w.Own = len(favorites) > 0
	return w, err
}

// watchAll says when builds or pipelines of an organization change.
func (s *Site) watchAll(v *pages.Visit) (live.Watch, error) {
	return live.Watch{Topics: []string{builds.OrganizationTopic(v.Org.ID), pipelines.Topic(v.Org.ID)}}, nil
}

// watchBuilds says when lists of a pipeline's builds change.
func (s *Site) watchBuilds(v *pages.Visit) (live.Watch, error) {
	p, err := s.Pipelines.Load(v.Request)
	if err != nil {
		return live.Watch{}, err
	}
	return live.Watch{Topics: []string{builds.PipelineTopic(p.ID), pipelines.Topic(v.Org.ID)}}, nil
}

// A pipelineRow is a pipeline in a list, with its latest build.
type pipelineRow struct {
	*pipelines.Pipeline
	Path     string           // of its page
	Build    *buildpages.Head // nil: none
	Default  *stateBadge      // of the newest build of the default branch; nil: none
	Spark    *pages.Chart
	Favorite bool
}

// A List is a page of an organization's pipelines.
type List struct {
	Org   *identity.Organization
	Rows  []pipelineRow
	Total int
	Name  string // filter by name
	Pages []pages.PageLink
	// Favorites are the pipelines that the visitor wants to see first.
	Favorites []pipelineRow
	New       string // path of the form for a new pipeline; "": the visitor cannot create one
}

// organization shows the pipelines of an organization that the visitor can see.
func (s *Site) organization(v *pages.Visit) error {
	page, err := v.Page()
	if err != nil {
		return err
	}
	l, err := s.List(v, v.FormQuery("name"), page)
	if err != nil {
		return err
	}
	if l.Total == 0 && v.Member == nil {
		return pages.ErrNothing // nothing here is public
	}
	if v.Member.Can(identity.CreatePipelines, v.Org) {
		l.New = v.Place("pipelines", "new")
	}
	if v.Session != nil && l.Name == "" && page.Number == 1 {
		if l.Favorites, err = s.favorites(v); err != nil {
			return err
		}
	}
	l.Pages = v.PageLinks(page, page.Number*page.Size < l.Total, "Previous", "Next")
	return v.Show(http.StatusOK, "pipelines", pages.View{Title: v.Org.Name, Section: "pipelines", Page: l})
}

// List returns pipelines of the visit's organization with their latest builds.
func (s *Site) List(v *pages.Visit, name string, page route.Page) (*List, error) {
	found, total, err := s.Pipelines.List(v.Context(), pipelines.ViewerOf(v.Request), name, page)
	if err != nil {
		return nil, err
	}
	rows, err := s.rows(v, found)
	return &List{Org: v.Org, Total: total, Name: name, Rows: rows}, err
}

// pipelinePage is the data of a pipeline's page.
type pipelinePage struct {
	*pipelines.Pipeline
	Org       *identity.Organization
	Rows      []buildpages.Head
	Branch    string // filter by branch
	Filter    filterForm
	Schedules []schedules.Schedule
	Pages     []pages.PageLink
	MayBuild  bool
	Manages   bool
	Member    bool // of the organization
	Favorite  bool
	Form      buildForm
	Problems  pages.Problems
}

// A buildForm is the form for a new build.
type buildForm struct {
	Commit, Branch, Message string
	Env, MetaData           string // lines of NAME=value
	Open                    bool
}

// Suggest returns the path of suggestions for a field of the page; "" for visitors.
func (p pipelinePage) Suggest(what string) string {
	if !p.Member {
		return ""
	}
	return pages.SuggestPath(p.Org, what, p.Slug)
}

// Path returns the path of the page.
func (p pipelinePage) Path() string { return core.PublicURL("").To(p.Org.Slug, p.Slug) }

// pipeline shows the builds of a pipeline.
func (s *Site) pipeline(v *pages.Visit) error {
	p, err := s.Pipelines.Load(v.Request)
	if err != nil {
		return err
	}
	return s.showPipeline(v, http.StatusOK, p, buildForm{Commit: "HEAD", Branch: p.DefaultBranch}, nil)
}

func (s *Site) showPipeline(v *pages.Visit, status int, p *pipelines.Pipeline, form buildForm, wrong pages.Problems) error {
	filter, page, err := readFilter(v)
	if err != nil {
		return err
	}
	branch := filter.Branch
	recent, more, err := s.listed(v, p, filter, page)
	if err != nil {
		return err
	}
	planned, err := s.Schedules.Of(v.Context(), p)
	if err != nil {
		return err
	}
	shown := pipelinePage{Pipeline: p, Schedules: planned, Org: v.Org, Branch: branch, Filter: filter, Manages: v.Session != nil && p.Permits(v.Request, identity.ManagePipeline), Pages: v.PageLinks(page, more, "Newer", "Older"), Form: form, Problems: wrong}
	shown.Member = v.Member != nil
	shown.MayBuild = v.Session != nil && !p.Archived() && p.Permits(v.Request, identity.BuildPipeline)
	if len(recent) == 0 && !filter.Active && page.Number == 1 {
		shown.Form.Open = true // the first build is what comes next
	}
	if v.Session != nil {
		favorites, err := s.Pipelines.Favorites(v.Context(), pipelines.ViewerOf(v.Request))
		if err != nil {
			return err
		}
		shown.Favorite = slices.ContainsFunc(favorites, func(f *pipelines.Pipeline) bool { return f.ID == p.ID })
	}
	for _, b := range recent {
		shown.Rows = append(shown.Rows, buildpages.HeadOf(v, builds.OnBuild{Build: b, Pipeline: p}))
	}
	return v.Show(status, "pipeline", pages.View{Title: p.Name, Section: "pipelines", Page: shown})
}

// newBuild creates a build.
func (s *Site) newBuild(v *pages.Visit) error {
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
	entered := buildForm{Commit: form.Get("commit"), Branch: form.Get("branch"), Message: form.Get("message"), Env: form.Get("env"), MetaData: form.Get("meta_data"), Open: true}
	env, envWrong := parseLines(entered.Env)
	metaData, metaWrong := parseLines(entered.MetaData)
	if envWrong != "" || metaWrong != "" {
		wrong := pages.Problems{"env": envWrong, "meta_data": metaWrong}
		return s.showPipeline(v, http.StatusUnprocessableEntity, p, entered, wrong)
	}
	b, err := s.BuildAPI.CreateFromPage(v.Request, p, buildapi.PageBuild{Commit: entered.Commit, Branch: entered.Branch, Message: entered.Message, Env: env, MetaData: metaData})
	if wrong, ok := pages.ProblemsOf(err); ok {
		return s.showPipeline(v, http.StatusUnprocessableEntity, p, entered, wrong)
	}
	if err != nil {
		return err
	}
	return v.Done(buildpages.PathOf(v.Org, p.Slug, b.Number), "Build created.")
}

// parseLines parses lines of NAME=value. problem says what is wrong with the first line that is not one.
func parseLines(text string) (values map[string]string, problem string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Sprintf("must be lines of NAME=value; this is not one: %q", core.Cut(line, 100))
		}
		if values == nil {
			values = make(map[string]string)
		}
		values[name] = strings.TrimSpace(value)
	}
	return values, ""
}
