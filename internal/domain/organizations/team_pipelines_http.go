package organizations

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) teamPipelineRoutes() []route.Route {
	const tag = "Team pipelines"
	const permitted = "Administrators may, and maintainers of the team who may manage the pipeline."
	const collection = teamPath + "/pipelines"
	const single = collection + "/{pipeline}"
	return []route.Route{
		{
			Method: http.MethodGet, Path: collection, Tag: tag,
			Summary: "List the pipelines that a team has access to",
			Scope:   identity.ReadTeams,
			Query:   route.PageParams,
			Handler: route.On(s.loadTeam, s.listTeamPipelines),
		},
		{
			Method: http.MethodPost, Path: collection, Tag: tag,
			Summary:     "Give a team access to a pipeline",
			Description: permitted,
			Scope:       identity.WriteTeams,
			Permission:  identity.ManageTeam,
			Status:      http.StatusCreated,
			Handler:     route.OnBody(s.loadTeam, s.createTeamPipeline),
		},
		{
			Method: http.MethodGet, Path: single, Tag: tag,
			Summary: "Get a team's access to a pipeline, by the pipeline's id",
			Scope:   identity.ReadTeams,
			Handler: route.On(s.loadTeamPipeline, s.getTeamPipeline),
		},
		{
			Method: http.MethodPatch, Path: single, Tag: tag,
			Summary:     "Change a team's access to a pipeline",
			Description: permitted,
			Scope:       identity.WriteTeams,
			Permission:  identity.ManageTeam,
			Handler:     route.OnBody(s.loadTeamPipeline, s.updateTeamPipeline),
		},
		{
			Method: http.MethodDelete, Path: single, Tag: tag,
			Summary:     "Remove a team's access to a pipeline",
			Description: permitted,
			Scope:       identity.WriteTeams,
			Permission:  identity.ManageTeam,
			Status:      http.StatusNoContent,
			Handler:     route.On(s.loadTeamPipeline, s.deleteTeamPipeline),
		},
	}
}

type teamPipelineView struct {
	PipelineID  string               `json:"pipeline_id"`
	PipelineURL string               `json:"pipeline_url"`
	AccessLevel identity.AccessLevel `json:"access_level"`
	CreatedAt   core.Time            `json:"created_at" doc:"When the team was given access."`
}

// teamPipelineViewer returns the function that renders access to pipelines of the request's organization.
func (s *Service) teamPipelineViewer(r *route.Request) func(TeamPipeline) teamPipelineView {
	return func(p TeamPipeline) teamPipelineView {
		return teamPipelineView{
			PipelineID:  p.PipelineID,
			PipelineURL: s.public.Org(r.Org.Slug, "pipelines", p.PipelineSlug),
			AccessLevel: p.AccessLevel,
			CreatedAt:   core.At(p.AddedAt),
		}
	}
}

func (s *Service) loadTeamPipeline(r *route.Request) (p TeamPipeline, err error) {
	team, err := s.loadTeam(r)
	if err != nil {
		return p, err
	}
	return route.ReadByID(r, s.db, "pipeline", noTeamPipeline, func(q *db.Q, id string) (TeamPipeline, error) {
		return teamPipeline(q, team, viewerOf(r), id)
	})
}

func (s *Service) listTeamPipelines(r *route.Request, t *Team) (route.Paged[teamPipelineView], error) {
	return route.ReadPage(r, s.db, func(q *db.Q, limit, offset int) ([]TeamPipeline, int, error) {
		return listTeamPipelines(q, t.ID, viewerOf(r), limit, offset)
	}, s.teamPipelineViewer(r))
}

func (s *Service) getTeamPipeline(r *route.Request, p TeamPipeline) (teamPipelineView, error) {
	return s.teamPipelineViewer(r)(p), nil
}

type teamPipelineCreate struct {
	PipelineID  string               `json:"pipeline_id"`
	AccessLevel identity.AccessLevel `json:"access_level"`
}

func (s *Service) createTeamPipeline(r *route.Request, t *Team, body teamPipelineCreate) (teamPipelineView, error) {
	var problems core.Problems
	pipelineID, ok := core.ParseID(body.PipelineID)
	if !ok {
		problems.Add("pipeline_id", "must be the id of a pipeline that you may manage")
	}
	requireOneOf(&problems, "access_level", body.AccessLevel)
	if err := validationError(problems); err != nil {
		return teamPipelineView{}, err
	}
	added, err := s.AddTeamPipeline(r.Context(), t, viewerOf(r), pipelineID, body.AccessLevel)
	return s.teamPipelineViewer(r)(added), err
}

type teamPipelineUpdate struct {
	AccessLevel identity.AccessLevel `json:"access_level"`
}

func (s *Service) updateTeamPipeline(r *route.Request, p TeamPipeline, body teamPipelineUpdate) (teamPipelineView, error) {
	var problems core.Problems
	requireOneOf(&problems, "access_level", body.AccessLevel)
	if err := validationError(problems); err != nil {
		return teamPipelineView{}, err
	}
	p, err := s.ChangeTeamPipeline(r.Context(), p, body.AccessLevel)
	return s.teamPipelineViewer(r)(p), err
}

func (s *Service) deleteTeamPipeline(r *route.Request, p TeamPipeline) (route.Nothing, error) {
	return route.Nothing{}, s.RemoveTeamPipeline(r.Context(), p)
}
