package buildapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/metadata"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) buildRoutes() []route.Route {
	listParams := append(append([]route.Param{}, filterParams...), append(shownParams, route.PageParams...)...)
	oneParams := append([]route.Param{
		{Name: "job_states[]", Type: "array", Doc: "The states of the jobs to show; all unless given."},
		{Name: "include_test_engine", Type: "boolean", Doc: "Whether to show the runs of test suites."},
	}, shownParams...)
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: "/v2/builds", Summary: "List builds of all organizations",
			Description: "Builds of every organization that the token reaches, newest first.",
			Query:       listParams, Handler: route.Do(s.getAllBuilds),
		},
		{
			Method: http.MethodGet, Path: builds.OrgPath + "/builds", Summary: "List builds of an organization",
			Description: "Newest first.",
			Query:       listParams, Handler: route.Do(s.getOrganizationBuilds),
		},
		{
			Method: http.MethodGet, Path: builds.ListPath, Summary: "List builds of a pipeline",
			Description: "Newest first.", Permission: identity.ReadPipeline, Visitors: true,
			Query: listParams, Handler: route.On(s.pipelines.Load, s.getBuilds),
		},
		{
			Method: http.MethodPost, Path: builds.ListPath, Summary: "Create a build",
			Status: http.StatusCreated, Handler: route.OnBody(s.pipelines.LoadShared, s.postBuild),
		},
		{
			Method: http.MethodGet, Path: builds.BuildPath, Summary: "Get a build",
			Description: "The build can be named by its number or its id.", Permission: identity.ReadPipeline, Visitors: true,
			Query: oneParams, Handler: route.On(s.builds.LoadOnBuild, s.getBuild),
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

// shown selects what a response contains besides the builds themselves.
type shown struct {
	jobStateCounts         *jobStateCountsView // of the build; nil: not shown
	jobs, pipeline, counts bool
	testEngine             *testEngineView // nil: not shown
	jobFilter              builds.JobFilter
	retriedJobsCount       *int
}

// withAll selects what the response to a change of one build contains.
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
	show.jobFilter.Retried, err = r.Flag("include_retried_jobs", false)
	return show, err
}

// views returns builds, each of one of the pipelines, as the request's caller may see them.
func (s *Service) views(q *db.Q, r *route.Request, byID map[string]*pipelines.Pipeline, list []*builds.Build, show shown) ([]shownBuildView, error) {
	ids := make([]string, len(list))
	for i, b := range list {
		ids[i] = b.ID
	}
	budget := route.Budget(len(list), ", or leave out jobs and pipelines with exclude_jobs=true and exclude_pipeline=true")
	metaData, err := metadata.OfBuilds(q, ids, budget)
	if err != nil {
		return nil, err
	}
	var jobs map[string][]*builds.Job
	if show.jobs {
		if jobs, err = builds.JobsOf(q, ids, show.jobFilter); err != nil {
			return nil, err
		}
		if err := s.builds.FillAgentNames(q, r.Org.ID, slices.Concat(slices.Collect(maps.Values(jobs))...)...); err != nil {
			return nil, err
		}
	}
	views := make([]shownBuildView, len(list))
	for i, b := range list {
		if show.counts {
			if show.jobStateCounts, err = jobStateCounts(q, b.ID, show.jobFilter.Retried); err != nil {
				return nil, err
			}
		}
		if views[i], err = s.buildView(r, byID[b.PipelineID], b, metaData[b.ID], jobs[b.ID], show, budget); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// buildView returns a build of a pipeline with its meta-data and jobs as the request's caller may see it.
func (s *Service) buildView(r *route.Request, p *pipelines.Pipeline, b *builds.Build, metaData map[string]string, jobs []*builds.Job, show shown, budget *db.Budget) (view shownBuildView, err error) {
	v := s.view(r, p, b.Shown(p))
	v.MetaData = metaData
	if show.pipeline {
		if err := budget.Spend(p.Size()); err != nil {
			return view, err
		}
		shown := s.pipelines.View(r, p)
		v.Pipeline = &shown
	}
	if show.jobs {
		shown := make([]JobView, len(jobs))
		for i, j := range jobs {
			if err := budget.Spend(j.Work.Size()); err != nil {
				return view, err
			}
			shown[i] = s.jobView(r, p, b, j)
		}
		v.Jobs = &shown
	}
	v.TestEngine, v.JobStateCounts, v.RetriedJobsCount = show.testEngine, show.jobStateCounts, show.retriedJobsCount
	return v.shownOn(p), nil
}

func jobStateCounts(q *db.Q, buildID string, retried bool) (*jobStateCountsView, error) {
	counts, err := builds.CountJobs(q, buildID, retried)
	v := &jobStateCountsView{States: counts}
	for _, n := range counts {
		v.Total += n
	}
	return v, err
}

// oneView returns one build as the request's caller may see it.
func (s *Service) oneView(r *route.Request, p *pipelines.Pipeline, b *builds.Build, show shown) (shownBuildView, error) {
	var views []shownBuildView
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		views, err = s.views(q, r, map[string]*pipelines.Pipeline{p.ID: p}, []*builds.Build{b}, show)
		return err
	})
	if err != nil {
		return shownBuildView{}, err
	}
	return views[0], nil
}

func (s *Service) getBuild(r *route.Request, o builds.OnBuild) (shownBuildView, error) {
	show, err := readShown(r)
	if err != nil {
		return shownBuildView{}, err
	}
	if show.testEngine, err = s.readTestEngine(r, o.Build.ID); err != nil {
		return shownBuildView{}, err
	}
	states, err := r.QueryList("job_states")
	if err != nil {
		return shownBuildView{}, err
	}
	for i, state := range states { // unlike in lists of jobs, clients write them in any case
		states[i] = strings.ToLower(strings.TrimSpace(state))
	}
	if err := builds.CheckJobStates(states); err != nil {
		return shownBuildView{}, err
	}
	show.jobFilter.States = states
	show.jobFilter.Promised = r.Org.Features.EarlyFailures
	show.counts = true
	return s.oneView(r, o.Pipeline, o.Build, show)
}

func readList(r *route.Request) (f builds.Filter, show shown, page route.Page, err error) {
	if page, err = r.Page(); err != nil {
		return f, show, page, err
	}
	if err := builds.CheckOffset(page, "; narrow the query, for example with created_to"); err != nil {
		return f, show, page, err
	}
	if show, err = readShown(r); err != nil {
		return f, show, page, err
	}
	f, err = readFilter(r)
	show.jobFilter.Unpaused = f.HidePaused
	return f, show, page, err
}

func (s *Service) getBuilds(r *route.Request, p *pipelines.Pipeline) (route.Paged[shownBuildView], error) {
	f, show, page, err := readList(r)
	if err != nil {
		return route.Paged[shownBuildView]{}, err
	}
	if p.Visited() && f.Hidden() {
		return paged(nil, page), nil
	}
	var views []shownBuildView
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		found, err := builds.ListOfPipeline(q, p, f, page.More(), page.Offset())
		if err != nil {
			return err
		}
		views, err = s.views(q, r, map[string]*pipelines.Pipeline{p.ID: p}, found, show)
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

// buildsOf lists the builds of organizations. within has a copy of the request for each organization.
func (s *Service) buildsOf(r *route.Request, within []*route.Request) (route.Paged[shownBuildView], error) {
	f, show, page, err := readList(r)
	if err != nil {
		return route.Paged[shownBuildView]{}, err
	}
	var views []shownBuildView
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		scope, err := visible(q, within, f)
		if err != nil {
			return err
		}
		found, err := builds.ListVisible(q, scope, f, page.More(), page.Offset())
		if err != nil {
			return err
		}
		views, err = s.viewsWithin(q, within, found, show)
		return err
	})
	return paged(views, page), err
}

// visible returns the builds that the caller can see, without those that visitors cannot filter.
func visible(q *db.Q, within []*route.Request, f builds.Filter) ([]builds.Visible, error) {
	list := make([]builds.Visible, len(within))
	for i, r := range within {
		ids, all, err := pipelines.VisibleIDs(q, pipelines.ViewerOf(r), !f.Hidden())
		if err != nil {
			return nil, err
		}
		list[i] = builds.Visible{OrganizationID: r.Org.ID, PipelineIDs: ids, All: all}
	}
	return list, nil
}

// pipelineIDs returns the ids of the pipelines of builds.
func pipelineIDs(list []*builds.Build) []string {
	seen := make(map[string]bool)
	for _, b := range list {
		seen[b.PipelineID] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// viewsWithin returns builds of several organizations in the order given.
func (s *Service) viewsWithin(q *db.Q, within []*route.Request, list []*builds.Build, show shown) ([]shownBuildView, error) {
	byID := make(map[string]shownBuildView, len(list))
	for _, r := range within {
		var own []*builds.Build
		for _, b := range list {
			if b.OrganizationID == r.Org.ID {
				own = append(own, b)
			}
		}
		if len(own) == 0 {
			continue
		}
		found, err := pipelines.ByIDs(q, pipelines.ViewerOf(r), pipelineIDs(own))
		if err != nil {
			return nil, err
		}
		// Access may have been taken away since the builds were read.
		own = slices.DeleteFunc(own, func(b *builds.Build) bool { return found[b.PipelineID] == nil })
		views, err := s.views(q, r, found, own, show)
		if err != nil {
			return nil, err
		}
		for i, v := range views {
			byID[own[i].ID] = v
		}
	}
	var ordered []shownBuildView
	for _, b := range list {
		if v, ok := byID[b.ID]; ok {
			ordered = append(ordered, v)
		}
	}
	return ordered, nil
}
