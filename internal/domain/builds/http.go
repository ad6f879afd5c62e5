package builds

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/domain/metadata"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const (
	orgPath   = "/v2/organizations/{org}"
	listPath  = orgPath + "/pipelines/{pipeline}/builds"
	BuildPath = listPath + "/{build}"
)

// Routes returns the routes of builds, jobs, and what belongs to them.
func (s *Service) Routes() []route.Route {
	return slices.Concat(
		s.buildRoutes(), s.actionRoutes(), s.jobRoutes(), s.uploadRoutes(), s.badgeRoutes(),
	)
}

func (s *Service) buildRoutes() []route.Route {
	listParams := append(append([]route.Param{}, filterParams...), append(shownParams, route.PageParams...)...)
	oneParams := append([]route.Param{
		{Name: "job_states[]", Type: "array", Doc: "The states of the jobs to show; all unless given."},
		{Name: "include_test_engine", Type: "boolean", Doc: "Whether to show the runs of test suites."},
	}, shownParams...)
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: "/v2/builds", Summary: "List builds of all organizations",
			Description: "Those of every organization that the token reaches, newest first.",
			Query:       listParams, Handler: route.Do(s.getAllBuilds),
		},
		{
			Method: http.MethodGet, Path: orgPath + "/builds", Summary: "List builds of an organization",
			Description: "Newest first.",
			Query:       listParams, Handler: route.Do(s.getOrganizationBuilds),
		},
		{
			Method: http.MethodGet, Path: listPath, Summary: "List builds of a pipeline",
			Description: "Newest first.", Permission: identity.ReadPipeline, Visitors: true,
			Query: listParams, Handler: route.On(s.pipelines.Load, s.getBuilds),
		},
		{
			Method: http.MethodPost, Path: listPath, Summary: "Create a build",
			Status: http.StatusCreated, Handler: route.OnBody(s.pipelines.Load, s.postBuild),
		},
		{
			Method: http.MethodGet, Path: BuildPath, Summary: "Get a build",
			Description: "The build can be named by its number or its id.", Permission: identity.ReadPipeline, Visitors: true,
			Query: oneParams, Handler: route.On(s.loadBuild, s.getBuild),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope = "Builds", identity.ReadBuilds
		if r.Method != http.MethodGet {
			r.Scope, r.Permission = identity.WriteBuilds, identity.BuildPipeline
		}
	}
	return routes
}

// OnBuild is a build together with its pipeline, which decides who may see and change it.
type OnBuild struct {
	*Build
	Pipeline *pipelines.Pipeline
}

// Permits reports whether the request's caller may do something to the build.
func (o OnBuild) Permits(r *route.Request, p identity.Permission) bool {
	return o.Pipeline.Permits(r, p)
}

// Refusal returns the message for callers who lack a permission.
func (o OnBuild) Refusal(p identity.Permission) string { return o.Pipeline.Refusal(p) }

// LoadOnBuild returns the build that the path of a route of another room names, for a caller who may see
// it. The path has {org}, {pipeline} and {build} in it.
func (s *Service) LoadOnBuild(r *route.Request) (OnBuild, error) { return s.loadBuild(r) }

// loadBuild returns the build that the path names.
func (s *Service) loadBuild(r *route.Request) (OnBuild, error) {
	p, err := s.pipelines.Load(r)
	if err != nil {
		return OnBuild{}, err
	}
	o := OnBuild{Pipeline: p}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		o.Build, err = byName(q, r.Org.ID, p.ID, r.PathValue("build"))
		return err
	})
	return o, err
}

// shown says what an answer has beside the builds themselves.
type shown struct {
	jobs, pipeline, testEngine, counts bool
	jobFilter                          jobFilter
	retriedJobsCount                   *int
}

// withAll shows what answers about one build have that a request has changed.
var withAll = shown{jobs: true, pipeline: true}

var shownParams = []route.Param{
	{Name: "exclude_jobs", Type: "boolean", Doc: "Whether to leave out the jobs."},
	{Name: "exclude_pipeline", Type: "boolean", Doc: "Whether to leave out the pipeline."},
	{Name: "include_retried_jobs", Type: "boolean", Doc: "Whether to show all attempts of jobs, not only the latest."},
}

func readShown(r *route.Request) (show shown, err error) {
	withoutJobs, err := r.Flag("exclude_jobs", false)
	if err != nil {
		return show, err
	}
	withoutPipeline, err := r.Flag("exclude_pipeline", false)
	if err != nil {
		return show, err
	}
	show.jobs, show.pipeline = !withoutJobs, !withoutPipeline
	show.jobFilter.retried, err = r.Flag("include_retried_jobs", false)
	return show, err
}

// views returns builds, each of one of the pipelines, as the request's caller may see them.
func (s *Service) views(q *db.Q, r *route.Request, byID map[string]*pipelines.Pipeline, builds []*Build, show shown) ([]shownBuildView, error) {
	ids := distinct(builds, func(b *Build) string { return b.ID })
	budget := route.Budget(len(builds), ", or leave out jobs and pipelines with exclude_jobs=true and exclude_pipeline=true")
	metaData, err := metadata.OfBuilds(q, ids, budget)
	if err != nil {
		return nil, err
	}
	var jobs map[string][]*Job
	if show.jobs {
		if jobs, err = jobsOf(q, ids, show.jobFilter); err != nil {
			return nil, err
		}
		if err := s.nameAgents(q, r.Org.ID, slices.Concat(slices.Collect(maps.Values(jobs))...)...); err != nil {
			return nil, err
		}
	}
	views := make([]shownBuildView, len(builds))
	for i, b := range builds {
		p := byID[b.PipelineID]
		v := s.view(r, p, b.Shown(p))
		v.MetaData = metaData[b.ID]
		if show.pipeline {
			if err := budget.Spend(p.Size()); err != nil {
				return nil, err
			}
			shown := s.pipelines.View(r, p)
			v.Pipeline = &shown
		}
		if show.jobs {
			list := make([]jobView, len(jobs[b.ID]))
			for i, j := range jobs[b.ID] {
				if err := budget.Spend(j.Work.shownWeight()); err != nil {
					return nil, err
				}
				list[i] = s.jobView(r, p, b, j)
			}
			v.Jobs = &list
		}
		if show.testEngine {
			v.TestEngine = &testEngineView{Runs: []testRunView{}}
		}
		if show.counts {
			if v.JobStateCounts, err = countJobs(q, b.ID, show.jobFilter.retried); err != nil {
				return nil, err
			}
		}
		v.RetriedJobsCount = show.retriedJobsCount
		views[i] = v.shownOn(p)
	}
	return views, nil
}

// oneView returns one build as the request's caller may see it.
func (s *Service) oneView(r *route.Request, p *pipelines.Pipeline, b *Build, show shown) (shownBuildView, error) {
	var views []shownBuildView
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		views, err = s.views(q, r, map[string]*pipelines.Pipeline{p.ID: p}, []*Build{b}, show)
		return err
	})
	if err != nil {
		return shownBuildView{}, err
	}
	return views[0], nil
}

func (s *Service) getBuild(r *route.Request, o OnBuild) (shownBuildView, error) {
	show, err := readShown(r)
	if err != nil {
		return shownBuildView{}, err
	}
	if show.testEngine, err = r.Flag("include_test_engine", false); err != nil {
		return shownBuildView{}, err
	}
	states, err := r.QueryList("job_states")
	if err != nil {
		return shownBuildView{}, err
	}
	for i, state := range states { // which, other than in lists of jobs, clients write in any case
		states[i] = strings.ToLower(strings.TrimSpace(state))
	}
	if err := checkJobStates(states); err != nil {
		return shownBuildView{}, err
	}
	show.jobFilter.states = states
	show.jobFilter.promised = r.Org.Features.EarlyFailures
	show.counts = true
	return s.oneView(r, o.Pipeline, o.Build, show)
}

// maxOffset is how far into a list of builds pages reach: the cost of a page grows with its offset.
const maxOffset = 50_000

func readList(r *route.Request) (f filter, show shown, page route.Page, err error) {
	if page, err = r.Page(); err != nil {
		return f, show, page, err
	}
	if page.Offset() > maxOffset {
		return f, show, page, core.Errorf(core.BadRequest, "Pages reach %d builds back; narrow the query, for example with created_to", maxOffset)
	}
	if show, err = readShown(r); err != nil {
		return f, show, page, err
	}
	f, err = readFilter(r)
	show.jobFilter.unpaused = f.hidePaused
	return f, show, page, err
}

func (s *Service) getBuilds(r *route.Request, p *pipelines.Pipeline) (route.Paged[shownBuildView], error) {
	f, show, page, err := readList(r)
	if err != nil {
		return route.Paged[shownBuildView]{}, err
	}
	if p.Visited() && f.hidden() {
		return paged(nil, page), nil
	}
	var views []shownBuildView
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		var where db.Statement
		where.Where("b.organization_id = %s AND b.pipeline_id = %s", r.Org.ID, p.ID)
		f.restrict(q, &where)
		order := f.orderWithMetaData(q, &where, metadata.Scope{Column: "pipeline_id", IDs: []string{p.ID}}, newestOfPipeline)
		builds, err := listBuilds(q, &where, order, page.More(), page.Offset())
		if err != nil {
			return err
		}
		views, err = s.views(q, r, map[string]*pipelines.Pipeline{p.ID: p}, builds, show)
		return err
	})
	return paged(views, page), err
}

func paged(views []shownBuildView, page route.Page) route.Paged[shownBuildView] {
	return route.MapMore(views, page, func(v shownBuildView) shownBuildView { return v })
}

func (s *Service) getOrganizationBuilds(r *route.Request) (route.Paged[shownBuildView], error) {
	return s.buildsOf(r, []*route.Request{r})
}

// getAllBuilds lists the builds of every organization that the token reaches.
func (s *Service) getAllBuilds(r *route.Request) (route.Paged[shownBuildView], error) {
	var orgs []identity.Organization
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		ids := r.Caller.Organizations()
		orgs, _, err = identity.OrganizationsByID(q, ids, len(ids), 0)
		return err
	})
	if err != nil {
		return route.Paged[shownBuildView]{}, err
	}
	var within []*route.Request
	for _, org := range orgs {
		if org.Suspended {
			continue
		}
		one := *r
		one.Org, one.Member = &org, r.Caller.Membership(org.ID)
		within = append(within, &one)
	}
	return s.buildsOf(r, within)
}

// buildsOf lists the builds of organizations, for each of which there is the request as it would be
// within it.
func (s *Service) buildsOf(r *route.Request, within []*route.Request) (route.Paged[shownBuildView], error) {
	f, show, page, err := readList(r)
	if err != nil {
		return route.Paged[shownBuildView]{}, err
	}
	var views []shownBuildView
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		var where db.Statement
		if err := visible(q, &where, within, f); err != nil {
			return err
		}
		f.restrict(q, &where)
		orgs := make([]string, len(within))
		for i, r := range within {
			orgs[i] = r.Org.ID
		}
		order := f.orderWithMetaData(q, &where, metadata.Scope{Column: "organization_id", IDs: orgs}, newestOfAll)
		builds, err := listBuilds(q, &where, order, page.More(), page.Offset())
		if err != nil {
			return err
		}
		views, err = s.viewsWithin(q, within, builds, show)
		return err
	})
	return paged(views, page), err
}

// visible limits a statement to the builds b that the caller may see, those apart that visitors cannot filter.
func visible(q *db.Q, where *db.Statement, within []*route.Request, f filter) error {
	either := "1 = 0"
	for _, r := range within {
		ids, all, err := pipelines.VisibleIDs(q, pipelines.ViewerOf(r), !f.hidden())
		if err != nil {
			return err
		}
		of := "b.organization_id = " + where.Arg(r.Org.ID)
		if !all {
			of += " AND " + where.In(q, "b.pipeline_id", ids)
		}
		either += " OR (" + of + ")"
	}
	if len(within) == 1 {
		either = either[len("1 = 0 OR "):]
	}
	where.And("(" + either + ")")
	return nil
}

// viewsWithin returns builds of several organizations in the order given.
func (s *Service) viewsWithin(q *db.Q, within []*route.Request, builds []*Build, show shown) ([]shownBuildView, error) {
	byID := make(map[string]shownBuildView, len(builds))
	for _, r := range within {
		var own []*Build
		for _, b := range builds {
			if b.OrganizationID == r.Org.ID {
				own = append(own, b)
			}
		}
		if len(own) == 0 {
			continue
		}
		found, err := pipelines.ByIDs(q, pipelines.ViewerOf(r), distinct(own, func(b *Build) string { return b.PipelineID }))
		if err != nil {
			return nil, err
		}
		// Access may have been taken away since the builds were read.
		own = slices.DeleteFunc(own, func(b *Build) bool { return found[b.PipelineID] == nil })
		views, err := s.views(q, r, found, own, show)
		if err != nil {
			return nil, err
		}
		for i, v := range views {
			byID[own[i].ID] = v
		}
	}
	var ordered []shownBuildView
	for _, b := range builds {
		if v, ok := byID[b.ID]; ok {
			ordered = append(ordered, v)
		}
	}
	return ordered, nil
}
