package pipelines

import (
	"errors"
	"fmt"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// A Viewer is the user who reads or changes the pipelines of an organization.
//
// If teams are disabled in the organization, every member manages every pipeline. With teams, administrators
// do; other members have the highest access level that one of their teams has on a pipeline. Everyone can read
// a public pipeline; a viewer without other access is a visitor, see visitor.go.
type Viewer struct {
	Org    *identity.Organization
	Member *identity.Membership // nil: a visitor from outside the organization
	User   identity.User
}

// ViewerOf returns the caller of a request as a viewer.
func ViewerOf(r *route.Request) Viewer {
	return Viewer{Org: r.Org, Member: r.Member, User: r.Caller.User}
}

// System returns the server itself as a viewer, which manages every pipeline of an organization.
func System(organizationID string) Viewer {
	return Viewer{Org: &identity.Organization{ID: organizationID}, Member: &identity.Membership{Role: identity.Admin}}
}

func (v Viewer) isSystem() bool { return v.Member != nil && v.User.ID == "" }

// ViewerAs returns a user as a viewer of an organization, independent of any token.
func ViewerAs(q *db.Q, org *identity.Organization, u identity.User) (Viewer, error) {
	var m identity.Membership
	err := q.QueryRow(`SELECT role FROM memberships WHERE organization_id = $1 AND user_id = $2`, org.ID, u.ID).Scan(&m.Role)
	if errors.Is(err, db.ErrNoRows) {
		return Viewer{Org: org, User: u}, nil
	}
	return Viewer{Org: org, Member: &m, User: u}, err
}

// BuiltTogether reports whether one team can build both of two pipelines of an organization.
func BuiltTogether(q *db.Q, orgID, pipelineID, otherID string) (together bool, err error) {
	err = q.QueryRow(`
		SELECT EXISTS (
			SELECT 1
			FROM team_pipelines a
			JOIN team_pipelines b ON b.team_id = a.team_id
			JOIN teams t ON t.id = a.team_id
			WHERE t.organization_id = $1 AND a.pipeline_id = $2 AND b.pipeline_id = $3
				AND a.access_level <> $4 AND b.access_level <> $4)`, orgID, pipelineID, otherID, identity.ReadOnly).Scan(&together)
	return together, err
}

// ManagesAll reports whether the viewer manages every pipeline of the organization.
func (v Viewer) ManagesAll() bool {
	return v.Member != nil && (!v.Org.Features.Teams || v.Member.Role == identity.Admin)
}

// levels lists the access levels by their rank in SQL; no access has rank 0.
var levels = []identity.AccessLevel{"", identity.ReadOnly, identity.BuildAndRead, identity.ManageBuildAndRead}

// rank returns an SQL expression for the rank of the viewer's level on pipeline p. It does not consider whether
// the pipeline is public.
func (v Viewer) rank(s *db.Statement) string {
	switch {
	case v.ManagesAll():
		return "3"
	case v.Member == nil:
		return "0"
	}
	return fmt.Sprintf(`COALESCE((
			SELECT MAX(CASE tp.access_level WHEN 'manage_build_and_read' THEN 3 WHEN 'build_and_read' THEN 2 ELSE 1 END)
			FROM team_pipelines tp
			JOIN team_members tm ON tm.team_id = tp.team_id
			WHERE tp.pipeline_id = p.id AND tm.user_id = %s), 0)`, s.Arg(v.User.ID))
}

// visible restricts a statement to the pipelines p that the viewer can see.
func (v Viewer) visible(s *db.Statement) {
	s.Where("p.organization_id = %s AND p.deleted_at IS NULL", v.Org.ID)
	switch {
	case v.ManagesAll():
	case v.Member == nil:
		s.Where("p.visibility = %s", Public)
	default:
		s.Where(`(p.visibility = 'public' OR `+inTeam+`)`, v.User.ID)
	}
}

// accessible restricts a statement to the pipelines p that the viewer can see as more than a visitor.
func (v Viewer) accessible(s *db.Statement) {
	switch {
	case v.ManagesAll():
	case v.Member == nil:
		s.And("1 = 0")
	default:
		s.Where(inTeam, v.User.ID)
	}
}

// inTeam is the condition that one of the user's teams has access to pipeline p.
const inTeam = `EXISTS (
			SELECT 1
			FROM team_pipelines tp
			JOIN team_members tm ON tm.team_id = tp.team_id
			WHERE tp.pipeline_id = p.id AND tm.user_id = %s)`

// Permits reports whether the viewer who loaded the pipeline has a permission on it.
func (p *Pipeline) Permits(_ *route.Request, permission identity.Permission) bool {
	switch permission {
	case identity.ReadPipeline:
		return p.level.AtLeast(identity.ReadOnly)
	case identity.BuildPipeline:
		return p.level.AtLeast(identity.BuildAndRead)
	case identity.ManagePipeline:
		return p.level.AtLeast(identity.ManageBuildAndRead)
	default:
		return false
	}
}

// Refusal returns the message for callers who lack a permission; the specification fixes it.
func (p *Pipeline) Refusal(identity.Permission) string { return "Forbidden" }
