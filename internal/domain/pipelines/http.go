package pipelines

import (
	"context"
	"maps"
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/sourcehost"
)

const pipelinesPath = "/v2/organizations/{org}/pipelines"

// Routes returns the package's part of the route table.
func (s *Service) Routes() []route.Route {
	const one = pipelinesPath + "/{pipeline}"
	unprocessable := []int{http.StatusUnprocessableEntity}
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: pipelinesPath, Summary: "List pipelines",
			Description: "Pipelines that the caller can see, by name; newest first when filtered by the time of creation.",
			Query:       append(listParams, route.PageParams...),
			Handler:     route.Do(s.getPipelines),
		},
		{
			Method: http.MethodPost, Path: pipelinesPath, Summary: "Create a pipeline",
			Description:     "With YAML in configuration, with visual steps, or from a template. For visual pipelines color, emoji, allow_rebuilds and the timeouts are ignored.",
			Permission:      identity.CreatePipelines,
			Status:          http.StatusCreated,
			PlainValidation: true,
			Handler:         route.DoBody(s.postPipeline),
		},
		{
			Method: http.MethodGet, Path: one, Summary: "Get a pipeline",
			Description: "Everyone with an access token can read a public pipeline. Callers without access to it get a reduced view.",
			Permission:  identity.ReadPipeline, Visitors: true,
			Handler: route.On(s.loadShown, s.getPipeline),
		},
		{
			Method: http.MethodPatch, Path: one, Summary: "Update a pipeline",
			Description:     "Fields that are not sent keep their values. A configuration makes a visual pipeline a YAML one. Teams are not changed here.",
			PlainValidation: true,
			Handler:         route.OnBody(s.Load, s.patchPipeline),
		},
		{
			Method: http.MethodDelete, Path: one, Summary: "Delete a pipeline",
			Status:  http.StatusNoContent,
			Handler: route.On(s.Load, s.deletePipeline),
		},
		{
			Method: http.MethodPost, Path: one + "/archive", Summary: "Archive a pipeline",
			Description: "It becomes read-only and is hidden from lists.",
			Errors:      unprocessable,
			Handler:     route.On(s.Load, s.postArchive),
		},
		{
			Method: http.MethodPost, Path: one + "/unarchive", Summary: "Unarchive a pipeline",
			Errors:  unprocessable,
			Handler: route.On(s.Load, s.postUnarchive),
		},
		{
			Method: http.MethodPost, Path: one + "/webhook", Summary: "Create the repository's webhook",
			Description: "Asks the source host, which must be connected, to send the repository's events to the pipeline's webhook_url. Returns the pipeline.",
			Status:      http.StatusCreated, Errors: unprocessable,
			Handler: route.On(s.Load, s.postWebhook),
		},
		{
			Method: http.MethodGet, Path: one + "/source-webhooks", Summary: "Get whether the source host's events are processed",
			Permission: identity.ManagePipeline,
			Handler:    route.On(s.loadSourceWebhooks, s.getSourceWebhooks),
		},
		{
			Method: http.MethodPut, Path: one + "/source-webhooks", Summary: "Process the source host's events",
			Errors:  unprocessable,
			Handler: route.On(s.loadSourceWebhooks, s.putSourceWebhooks),
		},
		{
			Method: http.MethodDelete, Path: one + "/source-webhooks", Summary: "Stop processing the source host's events",
			Errors:  unprocessable,
			Handler: route.On(s.loadSourceWebhooks, s.deleteSourceWebhooks),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope = "Pipelines", identity.ReadPipelines
		if r.Method != http.MethodGet {
			r.Scope = identity.WritePipelines
			if r.Permission == "" {
				r.Permission = identity.ManagePipeline
			}
		}
	}
	return append(routes, s.templateRoutes()...)
}

var listParams = []route.Param{
	{Name: "name", Doc: "A part of the name, in any case."},
	{Name: "repository", Doc: "A part of the repository's URL as it was given, in any case."},
	{Name: "created_from", Doc: "Created at this time (ISO 8601) or later."},
	{Name: "created_to", Doc: "Created before this time (ISO 8601)."},
	{Name: "archived", Type: "boolean", Doc: "Whether archived pipelines are listed too; false unless given."},
}

// Load returns the pipeline in the path as the caller can see it.
func (s *Service) Load(r *route.Request) (*Pipeline, error) {
	var p *Pipeline
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		p, err = BySlug(q, ViewerOf(r), r.PathValue("pipeline"))
		return err
	})
	if r.Member == nil && core.KindOf(err) == core.NotFound {
		// A visitor must not learn that the organization exists.
		return nil, core.Errorf(core.NotFound, "No organization found")
	}
	return p, err
}

func (s *Service) getPipelines(r *route.Request) (route.Paged[PipelineView], error) {
	f, err := readFilter(r)
	if err != nil {
		return route.Paged[PipelineView]{}, err
	}
	return route.ReadPage(r, s.db,
		func(q *db.Q, limit, offset int) ([]*Pipeline, int, error) {
			return list(q, ViewerOf(r), f, limit, offset)
		},
		func(p *Pipeline) PipelineView { return s.View(r, p) })
}

// List returns a page of the pipelines that a viewer can see, by name, and the total. It leaves out archived
// pipelines and those whose name does not contain name.
func (s *Service) List(ctx context.Context, v Viewer, name string, page route.Page) (found []*Pipeline, total int, err error) {
	if len(name) > maxSearch {
		return nil, 0, core.Errorf(core.BadRequest, "A name has at most %d bytes", maxSearch)
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		found, total, err = list(q, v, filter{name: name}, page.Size, page.Offset())
		return err
	})
	return found, total, err
}

// maxSearch is the length limit of a search text, in bytes: the same as of a repository URL.
const maxSearch = sourcehost.MaxURL

func readFilter(r *route.Request) (f filter, err error) {
	f = filter{name: r.FormQuery("name"), repository: r.FormQuery("repository")}
	if max(len(f.name), len(f.repository)) > maxSearch {
		return f, core.Errorf(core.BadRequest, "name and repository must have at most %d bytes", maxSearch)
	}
	if f.archived, err = r.Flag("archived", false); err != nil {
		return f, err
	}
	if f.createdFrom, err = r.QueryTime("created_from"); err != nil {
		return f, err
	}
	f.createdTo, err = r.QueryTime("created_to")
	return f, err
}

type pipelineCreate struct {
	pipelineFields
	Teams     teamLevels `json:"teams" doc:"The teams with access to the pipeline, and their access levels."`
	TeamUUIDs teamLevels `json:"team_uuids" doc:"As teams, in the form of older clients."`
}

// teams returns the teams of either field; a level in teams takes precedence.
func (c *pipelineCreate) teams() teamLevels {
	all := teamLevels{}
	maps.Copy(all, c.TeamUUIDs)
	maps.Copy(all, c.Teams)
	return all
}

type pipelineUpdate struct {
	pipelineFields
}

func (s *Service) postPipeline(r *route.Request, body pipelineCreate) (pipelineView, error) {
	p, err := s.create(r.Context(), ViewerOf(r), &body)
	return s.viewUnless(r, p, err)
}

func (s *Service) patchPipeline(r *route.Request, p *Pipeline, body pipelineUpdate) (pipelineView, error) {
	p, err := s.update(r.Context(), ViewerOf(r), p.ID, &body)
	return s.viewUnless(r, p, err)
}

func (s *Service) deletePipeline(r *route.Request, p *Pipeline) (route.Nothing, error) {
	return route.Nothing{}, s.delete(r.Context(), p)
}

func (s *Service) postArchive(r *route.Request, p *Pipeline) (pipelineView, error) {
	p, err := s.archive(r.Context(), ViewerOf(r), p.ID)
	return s.viewUnless(r, p, err)
}

func (s *Service) postUnarchive(r *route.Request, p *Pipeline) (pipelineView, error) {
	p, err := s.unarchive(r.Context(), ViewerOf(r), p.ID)
	return s.viewUnless(r, p, err)
}

// viewUnless returns the view of a pipeline, or the error.
func (s *Service) viewUnless(r *route.Request, p *Pipeline, err error) (pipelineView, error) {
	if err != nil {
		return pipelineView{}, err
	}
	return s.view(r, p), nil
}
