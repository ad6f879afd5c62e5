package suites

import (
	"slices"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A Viewer is a member who reads or changes the suites of an organization.
type Viewer struct {
	Org    *identity.Organization
	Member *identity.Membership
}

// ViewerOf returns the caller of a request.
func ViewerOf(r *route.Request) Viewer { return Viewer{Org: r.Org, Member: r.Member} }

// editsAll reports whether the viewer can edit every suite of the organization.
func (v Viewer) editsAll() bool {
	return !v.Org.Features.Teams || v.Member.Role == identity.Admin
}

// teams returns the ids of the viewer's teams.
func (v Viewer) teams() []string {
	ids := make([]string, len(v.Member.Teams))
	for i, team := range v.Member.Teams {
		ids[i] = team.TeamID
	}
	return ids
}

// createsFor reports whether the viewer is in a team whose members can create suites and that is among ids.
func (v Viewer) createsFor(ids []string) bool {
	return slices.ContainsFunc(v.Member.Teams, func(t identity.TeamMembership) bool {
		return t.CanCreateSuites && slices.Contains(ids, t.TeamID)
	})
}

// visible restricts a statement to the suites s that the viewer can see.
func (v Viewer) visible(q *db.Q, s *db.Statement) {
	s.Where("s.organization_id = %s AND s.deleted_at IS NULL", v.Org.ID)
	if !v.editsAll() {
		s.And("EXISTS (SELECT 1 FROM team_suites a WHERE a.suite_id = s.id AND " + s.In(q, "a.team_id", v.teams()) + ")")
	}
}

// editable returns an SQL expression for whether the viewer can edit suite s.
func (v Viewer) editable(q *db.Q, s *db.Statement) string {
	if v.editsAll() {
		return "TRUE"
	}
	return "EXISTS (SELECT 1 FROM team_suites a WHERE a.suite_id = s.id AND a.can_edit AND " + s.In(q, "a.team_id", v.teams()) + ")"
}

// Permits reports whether the caller who loaded the suite can edit it.
func (s *Suite) Permits(_ *route.Request, p identity.Permission) bool {
	return p == identity.EditSuite && s.editable
}
