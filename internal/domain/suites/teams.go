package suites

import (
	"context"
	"net/http"
	"slices"
	"time"

	"stackyard/internal/domain/organizations"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// The access levels of a team to a suite. Editing includes reading.
const (
	accessRead = "read"
	accessEdit = "edit"
)

func (s *Service) teamRoutes() []route.Route {
	const tag = "Team suites"
	const permitted = "Administrators may, and maintainers of the team who may edit the suite."
	const team = "/v2/organizations/{org}/teams/{team}"
	const one = team + "/suites/{suite_id}"
	create := route.Route{
		Method: http.MethodPost, Path: team + "/suites", Tag: tag, Summary: "Give a team access to a suite",
		Description: permitted,
		Scope:       identity.WriteTeams, Permission: identity.ManageTeam, Status: http.StatusCreated,
		Handler: route.OnBody(s.teams.LoadTeam, s.createTeamSuite),
	}
	// The published Go client posts to this path.
	createToo := create
	createToo.Path, createToo.Description = team+"/suite", "The same as the path that ends in suites, for clients that use this one."
	return []route.Route{
		{
			Method: http.MethodGet, Path: team + "/suites", Tag: tag, Summary: "List the suites that a team has access to",
			Scope:   identity.ReadTeams,
			Query:   route.PageParams,
			Handler: route.On(s.teams.LoadTeam, s.listTeamSuites),
		},
		create, createToo,
		{
			Method: http.MethodGet, Path: one, Tag: tag, Summary: "Get a team's access to a suite, by the suite's id",
			Scope:   identity.ReadTeams,
			Handler: route.On(s.loadTeamSuite, s.getTeamSuite),
		},
		{
			Method: http.MethodPatch, Path: one, Tag: tag, Summary: "Change a team's access to a suite",
			Description: permitted,
			Scope:       identity.WriteTeams, Permission: identity.ManageTeam,
			Handler: route.OnBody(s.loadTeamSuite, s.updateTeamSuite),
		},
		{
			Method: http.MethodDelete, Path: one, Tag: tag, Summary: "Take a team's access to a suite away",
			Description: permitted,
			Scope:       identity.WriteTeams, Permission: identity.ManageTeam, Status: http.StatusNoContent,
			Handler: route.On(s.loadTeamSuite, s.deleteTeamSuite),
		},
	}
}

// A teamSuite is a team's access to one suite.
type teamSuite struct {
	*organizations.Team
	suite   *Suite
	canEdit bool
	addedAt time.Time
}

// Permits lets a maintainer of the team change access only to suites that the maintainer can edit. Maintainers could
// otherwise give themselves access to any suite of the organization.
func (t teamSuite) Permits(r *route.Request, p identity.Permission) bool {
	return t.Team.Permits(r, p) && t.suite.editable
}

const noTeamSuite = "No team suite found"

func (s *Service) loadTeamSuite(r *route.Request) (t teamSuite, err error) {
	if t.Team, err = s.teams.LoadTeam(r); err != nil {
		return t, err
	}
	id, err := r.PathID("suite_id", noTeamSuite)
	if err != nil {
		return t, err
	}
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		list, _, err := teamSuites(q, ViewerOf(r), t.Team, id, 1, 0)
		if err == nil && len(list) == 0 {
			return core.Errorf(core.NotFound, noTeamSuite)
		}
		if err == nil {
			t = list[0]
		}
		return err
	})
	return t, err
}

// teamSuites returns a page of the suites that a team has access to and the viewer can see, oldest entry first, and
// their number; only the suite with an id if that is not "".
func teamSuites(q *db.Q, v Viewer, team *organizations.Team, id string, limit, offset int) ([]teamSuite, int, error) {
	var s db.Statement
	v.visible(q, &s)
	s.Where("t.team_id = %s", team.ID)
	if id != "" {
		s.Where("s.id = %s", id)
	}
	const from = ` FROM team_suites t JOIN suites s ON s.id = t.suite_id `
	var total int
	if err := q.QueryRow(`SELECT COUNT(*)`+from+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, 0, err
	}
	list, err := db.All(q, func(scan db.Scan) (t teamSuite, err error) {
		t.Team = team
		t.suite, err = scanSuite(func(dest ...any) error {
			return scan(append([]any{&t.canEdit, db.ToTime(&t.addedAt)}, dest...)...)
		})
		return t, err
	}, `SELECT t.can_edit, t.created_at, `+v.editable(q, &s)+`, `+suiteColumns+from+s.Clause()+`
		ORDER BY t.created_at, s.id
		LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return list, total, err
}

type teamSuiteView struct {
	SuiteID     string    `json:"suite_id"`
	SuiteURL    string    `json:"suite_url"`
	AccessLevel []string  `json:"access_level" doc:"read, and edit if the team can edit the suite."`
	CreatedAt   core.Time `json:"created_at" doc:"When the team was given access."`
}

func (s *Service) teamSuiteView(r *route.Request, t teamSuite) teamSuiteView {
	v := teamSuiteView{
		SuiteID: t.suite.ID, SuiteURL: URL(s.public, r.Org, t.suite.Slug),
		AccessLevel: []string{accessRead}, CreatedAt: core.At(t.addedAt),
	}
	if t.canEdit {
		v.AccessLevel = append(v.AccessLevel, accessEdit)
	}
	return v
}

func (s *Service) listTeamSuites(r *route.Request, team *organizations.Team) (route.Paged[teamSuiteView], error) {
	return route.ReadPage(r, s.db,
		func(q *db.Q, limit, offset int) ([]teamSuite, int, error) {
			return teamSuites(q, ViewerOf(r), team, "", limit, offset)
		},
		func(t teamSuite) teamSuiteView { return s.teamSuiteView(r, t) })
}

func (s *Service) getTeamSuite(r *route.Request, t teamSuite) (teamSuiteView, error) {
	return s.teamSuiteView(r, t), nil
}

// accessLevels are the levels that a request gives a team.
type accessLevels struct {
	AccessLevel []string `json:"access_level" doc:"read, or read and edit."`
}

func (a accessLevels) canEdit() (bool, error) {
	for _, level := range a.AccessLevel {
		if level != accessRead && level != accessEdit {
			return false, organizations.FieldError("access_level", "must be a list of read and edit")
		}
	}
	if len(a.AccessLevel) == 0 {
		return false, organizations.FieldError("access_level", "is required: a list of read and edit")
	}
	return slices.Contains(a.AccessLevel, accessEdit), nil
}

type teamSuiteCreate struct {
	accessLevels
	SuiteID string `json:"suite_id"`
}

func (s *Service) createTeamSuite(r *route.Request, team *organizations.Team, body teamSuiteCreate) (v teamSuiteView, err error) {
	t := teamSuite{Team: team, addedAt: s.clock()}
	if t.canEdit, err = body.canEdit(); err != nil {
		return v, err
	}
	err = s.addTeamSuite(r.Context(), ViewerOf(r), &t, body.SuiteID)
	if err != nil {
		return v, err
	}
	return s.teamSuiteView(r, t), nil
}

// addTeamSuite gives a team access to a suite that the viewer can edit.
func (s *Service) addTeamSuite(ctx context.Context, v Viewer, t *teamSuite, suiteID string) error {
	id, _ := core.ParseID(suiteID)
	return s.db.Write(ctx, func(q *db.Q) (err error) {
		existing, err := organizations.LockTeams(q, v.Org.ID, []string{t.Team.ID})
		if err != nil {
			return err
		}
		if len(existing) == 0 {
			return core.Errorf(core.NotFound, "No team found")
		}
		t.suite, err = byID(q, v, id)
		if core.KindOf(err) == core.NotFound || err == nil && !t.suite.editable {
			return organizations.FieldError("suite_id", "must be the id of a suite that you may edit")
		}
		if err != nil {
			return err
		}
		n, err := teamSuiteRows.Exec(q, t.Team.ID+"/"+t.suite.ID, `INSERT INTO team_suites (team_id, suite_id, can_edit, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			t.Team.ID, t.suite.ID, t.canEdit, db.Micros(t.addedAt))
		if err == nil && n == 0 {
			return organizations.FieldError("suite_id", "has already been added to the team")
		}
		return err
	})
}

func (s *Service) updateTeamSuite(r *route.Request, t teamSuite, body accessLevels) (v teamSuiteView, err error) {
	if t.canEdit, err = body.canEdit(); err != nil {
		return v, err
	}
	err = s.db.Write(r.Context(), func(q *db.Q) error {
		_, err := teamSuiteRows.Exec(q, t.Team.ID+"/"+t.suite.ID, `UPDATE team_suites SET can_edit = $3 WHERE team_id = $1 AND suite_id = $2`, t.Team.ID, t.suite.ID, t.canEdit)
		return err
	})
	return s.teamSuiteView(r, t), err
}

func (s *Service) deleteTeamSuite(r *route.Request, t teamSuite) (route.Nothing, error) {
	return route.Nothing{}, s.db.Write(r.Context(), func(q *db.Q) error {
		_, err := teamSuiteRows.Exec(q, t.Team.ID+"/"+t.suite.ID, `DELETE FROM team_suites WHERE team_id = $1 AND suite_id = $2`, t.Team.ID, t.suite.ID)
		return err
	})
}
