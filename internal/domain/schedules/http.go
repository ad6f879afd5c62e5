package schedules

import (
	"cmp"
	"net/http"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Routes returns the routes of schedules.
func (s *Service) Routes() []route.Route {
	const all = "/v2/organizations/{org}/pipelines/{pipeline}/schedules"
	const one = all + "/{schedule}"
	unprocessable := []int{http.StatusUnprocessableEntity}
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: all, Summary: "List schedules", Description: "Newest first.",
			Query: route.PageParams, Handler: route.On(s.loadPipeline, s.getAll),
		},
		{
			Method: http.MethodPost, Path: all, Summary: "Create a schedule",
			Description: "The cronline has five fields (minute, hour, day of the month, month, weekday) or is a word like @daily, and can end with a time zone, as in \"0 9 * * MON-FRI Europe/Berlin\".",
			Status:      http.StatusCreated, Handler: route.OnBody(s.loadPipeline, s.post),
		},
		{
			Method: http.MethodGet, Path: all + "/preview", Summary: "Preview a cronline",
			Description: "The next ten times at which a schedule with this cronline builds.",
			Query:       []route.Param{{Name: "cronline", Doc: "The cronline."}}, Errors: unprocessable,
			Handler: route.On(s.loadPipeline, s.previewText),
		},
		{Method: http.MethodGet, Path: one, Summary: "Get a schedule", Handler: route.On(s.loadFromPath, s.get)},
		{
			Method: http.MethodGet, Path: one + "/preview", Summary: "Preview a schedule",
			Description: "The next ten times of the schedule's cronline, also while the schedule is disabled.",
			Errors:      unprocessable,
			Handler:     route.On(s.loadFromPath, s.preview),
		},
		{
			Method: http.MethodPatch, Path: one, Summary: "Update a schedule",
			Description: "Fields that are not sent keep their values. Enabling a schedule clears its last failure.",
			Handler:     route.OnBody(s.loadFromPath, s.patch),
		},
		{
			Method: http.MethodPut, Path: one, Summary: "Update a schedule", Description: "The same as PATCH.",
			Handler: route.OnBody(s.loadFromPath, s.patch),
		},
		{
			Method: http.MethodDelete, Path: one, Summary: "Delete a schedule",
			Status: http.StatusNoContent, Errors: unprocessable, Handler: route.On(s.loadFromPath, s.remove),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope, r.Permission = "Schedules", identity.ReadPipelines, identity.ReadPipeline
		if r.Method != http.MethodGet {
			r.Scope, r.Permission = identity.WritePipelines, identity.ManagePipeline
		}
	}
	return routes
}

// scheduleFields are the request fields of creating and updating a schedule.
type scheduleFields struct {
	Cronline route.Opt[string]            `json:"cronline" doc:"When to build, for example 0 9 * * MON-FRI Europe/Berlin."`
	Label    route.Opt[string]            `json:"label"`
	Message  route.Opt[string]            `json:"message" doc:"Message of the builds; that of the commit unless given."`
	Commit   route.Opt[string]            `json:"commit" doc:"HEAD unless given."`
	Branch   route.Opt[string]            `json:"branch" doc:"The pipeline's default branch unless given."`
	Env      route.Opt[map[string]string] `json:"env" doc:"Variables of the builds."`
	Enabled  route.Opt[bool]              `json:"enabled" doc:"true unless given."`
}

// applyTo writes the fields that were sent into a schedule.
func (f *scheduleFields) applyTo(s *Schedule) {
	for _, text := range []struct {
		sent route.Opt[string]
		dst  *string
	}{{f.Cronline, &s.Cronline}, {f.Label, &s.Label}, {f.Message, &s.Message}, {f.Commit, &s.Commit}, {f.Branch, &s.Branch}} {
		if text.sent.Set {
			*text.dst = strings.TrimSpace(text.sent.Value)
		}
	}
	if f.Env.Set {
		if s.Env = f.Env.Value; s.Env == nil {
			s.Env = map[string]string{}
		}
	}
	if f.Enabled.Set && !f.Enabled.Null {
		s.Enabled = f.Enabled.Value
	}
}

type scheduleView struct {
	ID            string             `json:"id"`
	GraphQLID     string             `json:"graphql_id"`
	URL           string             `json:"url"`
	Label         string             `json:"label"`
	Cronline      string             `json:"cronline"`
	Message       *string            `json:"message"`
	Commit        string             `json:"commit"`
	Branch        string             `json:"branch"`
	Env           map[string]string  `json:"env"`
	Enabled       bool               `json:"enabled"`
	NextBuildAt   core.Time          `json:"next_build_at" doc:"null while the schedule is disabled or the pipeline is archived."`
	FailedMessage *string            `json:"failed_message" doc:"Why the last build could not be created; null after one was."`
	FailedAt      core.Time          `json:"failed_at"`
	CreatedAt     core.Time          `json:"created_at"`
	CreatedBy     *identity.UserView `json:"created_by"`
	Pipeline      pipelineRef        `json:"pipeline"`
}

type pipelineRef struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	URL  string `json:"url"`
}

func (s *Service) view(r *route.Request, p *pipelines.Pipeline, sched Schedule) scheduleView {
	v := scheduleView{
		ID:            sched.ID,
		GraphQLID:     core.GraphQLID("PipelineSchedule", sched.ID),
		URL:           s.public.Org(r.Org.Slug, "pipelines", p.Slug, "schedules", sched.ID),
		Label:         sched.Label,
		Cronline:      sched.Cronline,
		Message:       core.OrNull(sched.Message),
		Commit:        cmp.Or(sched.Commit, headCommit),
		Branch:        cmp.Or(sched.Branch, p.DefaultBranch),
		Env:           sched.Env,
		Enabled:       sched.Enabled,
		NextBuildAt:   core.At(sched.NextAt),
		FailedMessage: core.OrNull(sched.FailedMessage),
		FailedAt:      core.At(sched.FailedAt),
		CreatedAt:     core.At(sched.CreatedAt),
		CreatedBy:     sched.CreatedBy.View(s.public),
		Pipeline:      pipelineRef{p.ID, p.Slug, s.public.Org(r.Org.Slug, "pipelines", p.Slug)},
	}
	if p.Archived() {
		v.NextBuildAt = core.Time{}
	}
	return v
}

// A found is the schedule in a path, with its pipeline.
type found struct {
	*pipelines.Pipeline
	schedule Schedule
}

// loadPipeline returns the pipeline in the path. Visitors of a public pipeline do not see its schedules.
func (s *Service) loadPipeline(r *route.Request) (*pipelines.Pipeline, error) {
	p, err := s.pipelines.Load(r)
	if err == nil && p.Visited() {
		err = core.Errorf(core.NotFound, noSchedule)
	}
	return p, err
}

func (s *Service) loadFromPath(r *route.Request) (found, error) {
	p, err := s.loadPipeline(r)
	if err != nil {
		return found{}, err
	}
	sched, err := route.ReadByID(r, s.db, "schedule", noSchedule, func(q *db.Q, id string) (Schedule, error) { return byID(q, r.Org.ID, p.ID, id) })
	return found{Pipeline: p, schedule: sched}, err
}

func (s *Service) getAll(r *route.Request, p *pipelines.Pipeline) (route.Paged[scheduleView], error) {
	return route.ReadPage(r, s.db,
		func(q *db.Q, limit, offset int) ([]Schedule, int, error) {
			return list(q, r.Org.ID, p.ID, limit, offset)
		},
		func(sched Schedule) scheduleView { return s.view(r, p, sched) })
}

func (s *Service) get(r *route.Request, f found) (scheduleView, error) {
	return s.view(r, f.Pipeline, f.schedule), nil
}

func (s *Service) post(r *route.Request, p *pipelines.Pipeline, body scheduleFields) (scheduleView, error) {
	sched, err := s.create(r.Context(), p, &r.Caller.User, &body)
	if err != nil {
		return scheduleView{}, err
	}
	return s.view(r, p, sched), nil
}

func (s *Service) patch(r *route.Request, f found, body scheduleFields) (scheduleView, error) {
	sched, err := s.update(r.Context(), f.Pipeline, f.schedule.ID, &body)
	if err != nil {
		return scheduleView{}, err
	}
	return s.view(r, f.Pipeline, sched), nil
}

func (s *Service) remove(r *route.Request, f found) (route.Nothing, error) {
	return route.Nothing{}, s.delete(r.Context(), f.Pipeline, f.schedule.ID)
}

type previewView struct {
	Cronline string      `json:"cronline"`
	TimeZone string      `json:"time_zone"`
	Runs     []core.Time `json:"runs" doc:"The next times, in order."`
}

func (s *Service) previewText(r *route.Request, _ *pipelines.Pipeline) (previewView, error) {
	return s.previewOf(r.FormQuery("cronline"))
}

func (s *Service) preview(_ *route.Request, f found) (previewView, error) {
	return s.previewOf(f.schedule.Cronline)
}

// previewOf returns the next times of a cron line.
func (s *Service) previewOf(text string) (previewView, error) {
	now := s.clock()
	text = strings.TrimSpace(text)
	line, err := parse(text, now)
	if err != nil {
		var wrong core.Problems
		wrong.Add("cronline", "%s", err)
		return previewView{}, wrong.Err()
	}
	v := previewView{Cronline: text, TimeZone: line.Zone().String()}
	for _, at := range line.Upcoming(now, previewed) {
		v.Runs = append(v.Runs, core.At(at))
	}
	return v, nil
}
