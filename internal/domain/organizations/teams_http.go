package organizations

import (
	"net/http"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

const (
	teamsPath = organizationPath + "/teams"
	teamPath  = teamsPath + "/{team}"
)

func (s *Service) teamRoutes() []route.Route {
	const tag = "Teams"
	return []route.Route{
		{
			Method: http.MethodGet, Path: teamsPath, Tag: tag,
			Summary:     "List the teams of an organization",
			Description: "Secret teams are listed for their members and for administrators.",
			Scope:       identity.ReadTeams,
			Query:       append([]route.Param{{Name: "user_id", Doc: "Only teams that this user is in."}}, route.PageParams...),
			Handler:     route.Do(s.listTeams),
		},
		{
			Method: http.MethodPost, Path: teamsPath, Tag: tag,
			Summary:    "Create a team",
			Scope:      identity.WriteTeams,
			Permission: identity.ManageTeams,
			Status:     http.StatusCreated,
			Handler:    route.DoBody(s.createTeam),
		},
		{
			Method: http.MethodPost, Path: teamsPath + "/enable", Tag: tag,
			Summary:     "Enable teams",
			Description: "From then on members see the pipelines of their teams. Where there is no team yet, a team Everyone is made of all members, with access to all pipelines. Enabling them again changes nothing.",
			Scope:       identity.WriteTeams,
			Permission:  identity.ManageTeams,
			Status:      http.StatusNoContent,
			Handler:     route.Do(s.enableTeams),
		},
		{
			Method: http.MethodGet, Path: teamPath, Tag: tag,
			Summary: "Get a team by its slug or id",
			Scope:   identity.ReadTeams,
			Handler: route.On(s.loadTeam, s.getTeam),
		},
		{
			Method: http.MethodPatch, Path: teamPath, Tag: tag,
			Summary:     "Change a team",
			Description: "The slug stays as it is when the name changes.",
			Scope:       identity.WriteTeams,
			Permission:  identity.ManageTeams,
			Handler:     route.OnBody(s.loadTeam, s.updateTeam),
		},
		{
			Method: http.MethodDelete, Path: teamPath, Tag: tag,
			Summary:    "Delete a team",
			Scope:      identity.WriteTeams,
			Permission: identity.ManageTeams,
			Status:     http.StatusNoContent,
			Handler:    route.On(s.loadTeam, s.deleteTeam),
		},
	}
}

type teamView struct {
	ID                          string             `json:"id"`
	GraphQLID                   string             `json:"graphql_id"`
	Name                        string             `json:"name"`
	Slug                        string             `json:"slug"`
	Description                 string             `json:"description"`
	Privacy                     Privacy            `json:"privacy"`
	Default                     bool               `json:"default" doc:"New members of the organization join it."`
	IsDefaultTeam               bool               `json:"is_default_team" doc:"The same as default, by the name that requests use."`
	DefaultMemberRole           identity.TeamRole  `json:"default_member_role" doc:"Role of new members unless given."`
	MembersCanCreatePipelines   bool               `json:"members_can_create_pipelines"`
	MembersCanCreateSuites      bool               `json:"members_can_create_suites"`
	MembersCanCreateRegistries  bool               `json:"members_can_create_registries"`
	MembersCanDestroyRegistries bool               `json:"members_can_destroy_registries"`
	MembersCanDestroyPackages   bool               `json:"members_can_destroy_packages"`
	CreatedAt                   core.Time          `json:"created_at"`
	CreatedBy                   *identity.UserView `json:"created_by"`
}

func (s *Service) teamView(t Team) teamView {
	return teamView{
		ID:                          t.ID,
		GraphQLID:                   core.GraphQLID("Team", t.ID),
		Name:                        t.Name,
		Slug:                        t.Slug,
		Description:                 t.Description,
		Privacy:                     t.Privacy,
		Default:                     t.Default,
		IsDefaultTeam:               t.Default,
		DefaultMemberRole:           t.DefaultMemberRole,
		MembersCanCreatePipelines:   t.MembersCanCreatePipelines,
		MembersCanCreateSuites:      t.MembersCanCreateSuites,
		MembersCanCreateRegistries:  t.MembersCanCreateRegistries,
		MembersCanDestroyRegistries: t.MembersCanDestroyRegistries,
		MembersCanDestroyPackages:   t.MembersCanDestroyPackages,
		CreatedAt:                   core.At(t.CreatedAt),
		CreatedBy:                   t.CreatedBy.View(s.public),
	}
}

// teamEdit is the request body that creates or updates a team.
type teamEdit struct {
	Name                        route.Opt[string]            `json:"name"`
	Description                 route.Opt[string]            `json:"description"`
	Privacy                     route.Opt[Privacy]           `json:"privacy"`
	IsDefaultTeam               route.Opt[bool]              `json:"is_default_team"`
	DefaultMemberRole           route.Opt[identity.TeamRole] `json:"default_member_role"`
	MembersCanCreatePipelines   route.Opt[bool]              `json:"members_can_create_pipelines"`
	MembersCanCreateSuites      route.Opt[bool]              `json:"members_can_create_suites"`
	MembersCanCreateRegistries  route.Opt[bool]              `json:"members_can_create_registries"`
	MembersCanDestroyRegistries route.Opt[bool]              `json:"members_can_destroy_registries"`
	MembersCanDestroyPackages   route.Opt[bool]              `json:"members_can_destroy_packages"`
}

// applyTo writes the fields that were sent into t.
func (e teamEdit) applyTo(t *Team) {
	e.Name.To(&t.Name)
	e.Description.To(&t.Description)
	e.Privacy.To(&t.Privacy)
	e.IsDefaultTeam.To(&t.Default)
	e.DefaultMemberRole.To(&t.DefaultMemberRole)
	e.MembersCanCreatePipelines.To(&t.MembersCanCreatePipelines)
	e.MembersCanCreateSuites.To(&t.MembersCanCreateSuites)
	e.MembersCanCreateRegistries.To(&t.MembersCanCreateRegistries)
	e.MembersCanDestroyRegistries.To(&t.MembersCanDestroyRegistries)
	e.MembersCanDestroyPackages.To(&t.MembersCanDestroyPackages)
}

// LoadTeam returns the team that the path names by {team}, for routes of packages that give teams access to what they
// own.
func (s *Service) LoadTeam(r *route.Request) (*Team, error) { return s.loadTeam(r) }

// loadTeam returns the team in the path if the caller can see it.
func (s *Service) loadTeam(r *route.Request) (*Team, error) {
	var t Team
	err := s.db.Read(r.Context(), func(q *db.Q) (err error) {
		t, err = visibleTeam(q, r.Org.ID, viewerOf(r), r.PathValue("team"))
		return err
	})
	return &t, err
}

func (s *Service) listTeams(r *route.Request) (page route.Paged[teamView], err error) {
	user, err := r.QueryID("user_id", "a UUID")
	if err != nil {
		return page, err
	}
	return route.ReadPage(r, s.db, func(q *db.Q, limit, offset int) ([]Team, int, error) {
		return listTeams(q, r.Org.ID, viewerOf(r), user, limit, offset)
	}, s.teamView)
}

func (s *Service) getTeam(r *route.Request, t *Team) (teamView, error) {
	return s.teamView(*t), nil
}

func (s *Service) createTeam(r *route.Request, body teamEdit) (teamView, error) {
	t := newTeam(r.Org.ID, s.clock())
	t.CreatedBy = &r.Caller.User
	body.applyTo(&t)
	t, err := s.CreateTeam(r.Context(), t)
	return s.teamView(t), err
}

func (s *Service) updateTeam(r *route.Request, t *Team, body teamEdit) (teamView, error) {
	changed, err := s.ChangeTeam(r.Context(), r.Org.ID, t.ID, body.applyTo)
	return s.teamView(changed), err
}

func (s *Service) deleteTeam(r *route.Request, t *Team) (route.Nothing, error) {
	return route.Nothing{}, s.DeleteTeam(r.Context(), r.Org.ID, t.ID)
}

func (s *Service) enableTeams(r *route.Request) (route.Nothing, error) {
	return route.Nothing{}, s.EnableTeams(r.Context(), r.Org.Slug, r.Caller.User)
}
