package organizations

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) teamMemberRoutes() []route.Route {
	const tag = "Team members"
	const collection = teamPath + "/members"
	const single = collection + "/{user}"
	return []route.Route{
		{
			Method: http.MethodGet, Path: collection, Tag: tag,
			Summary: "List the members of a team",
			Scope:   identity.ReadTeams,
			Query:   route.PageParams,
			Handler: route.On(s.loadTeam, s.listTeamMembers),
		},
		{
			Method: http.MethodPost, Path: collection, Tag: tag,
			Summary:     "Add a member of the organization to a team",
			Description: "For administrators and maintainers of the team.",
			Scope:       identity.WriteTeams,
			Permission:  identity.ManageTeam,
			Status:      http.StatusCreated,
			Handler:     route.OnBody(s.loadTeam, s.createTeamMember),
		},
		{
			Method: http.MethodGet, Path: single, Tag: tag,
			Summary: "Get a member of a team",
			Scope:   identity.ReadTeams,
			Handler: route.On(s.loadTeamMember, s.getTeamMember),
		},
		{
			Method: http.MethodPatch, Path: single, Tag: tag,
			Summary:     "Change a member's role in a team",
			Description: "For administrators and maintainers of the team.",
			Scope:       identity.WriteTeams,
			Permission:  identity.ManageTeam,
			Handler:     route.OnBody(s.loadTeamMember, s.updateTeamMember),
		},
		{
			Method: http.MethodDelete, Path: single, Tag: tag,
			Summary:     "Remove a member from a team",
			Description: "For administrators and maintainers of the team.",
			Scope:       identity.WriteTeams,
			Permission:  identity.ManageTeam,
			Status:      http.StatusNoContent,
			Handler:     route.On(s.loadTeamMember, s.deleteTeamMember),
		},
	}
}

type teamMemberView struct {
	UserID    string            `json:"user_id"`
	UserName  string            `json:"user_name"`
	Role      identity.TeamRole `json:"role"`
	CreatedAt core.Time         `json:"created_at" doc:"When they joined the team."`
}

func viewTeamMember(m TeamMember) teamMemberView {
	return teamMemberView{UserID: m.User.ID, UserName: m.User.Name, Role: m.Role, CreatedAt: core.At(m.JoinedAt)}
}

func (s *Service) loadTeamMember(r *route.Request) (m TeamMember, err error) {
	team, err := s.loadTeam(r)
	if err != nil {
		return m, err
	}
	return route.ReadByID(r, s.db, "user", noTeamMember, func(q *db.Q, id string) (TeamMember, error) { return teamMember(q, team, id) })
}

func (s *Service) listTeamMembers(r *route.Request, t *Team) (route.Paged[teamMemberView], error) {
	return route.ReadPage(r, s.db, func(q *db.Q, limit, offset int) ([]TeamMember, int, error) {
		return listTeamMembers(q, t.ID, limit, offset)
	}, viewTeamMember)
}

func (s *Service) getTeamMember(r *route.Request, m TeamMember) (teamMemberView, error) {
	return viewTeamMember(m), nil
}

type teamMemberCreate struct {
	UserID string                       `json:"user_id"`
	Role   route.Opt[identity.TeamRole] `json:"role" doc:"The team's default_member_role unless given."`
}

func (s *Service) createTeamMember(r *route.Request, t *Team, body teamMemberCreate) (teamMemberView, error) {
	var problems core.Problems
	userID, ok := core.ParseID(body.UserID)
	if !ok {
		problems.Add("user_id", "must be the id of a member of the organization")
	}
	role := pointer(body.Role)
	if role != nil {
		requireOneOf(&problems, "role", *role)
	}
	if err := validationError(problems); err != nil {
		return teamMemberView{}, err
	}
	m, err := s.AddTeamMember(r.Context(), r.Org.ID, t.ID, userID, role)
	return viewTeamMember(m), err
}

type teamMemberUpdate struct {
	Role identity.TeamRole `json:"role"`
}

func (s *Service) updateTeamMember(r *route.Request, m TeamMember, body teamMemberUpdate) (teamMemberView, error) {
	var problems core.Problems
	requireOneOf(&problems, "role", body.Role)
	if err := validationError(problems); err != nil {
		return teamMemberView{}, err
	}
	m, err := s.ChangeTeamMember(r.Context(), m, body.Role)
	return viewTeamMember(m), err
}

func (s *Service) deleteTeamMember(r *route.Request, m TeamMember) (route.Nothing, error) {
	return route.Nothing{}, s.RemoveTeamMember(r.Context(), m)
}
