package clusters

import (
	"slices"
	"strconv"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Maintainer is a user, or a team with everybody in it, who may change one cluster and all that is
// in it.
type Maintainer struct {
	ID        string
	User      *identity.User // or
	Team      *Team
	CreatedAt time.Time
}

// A Team is what a cluster knows of a team that maintains it.
type Team struct{ ID, Slug, Name string }

// is reports whether a user is this maintainer, or a member of the team that is.
func (m Maintainer) is(u *identity.User, member *identity.Membership) bool {
	if m.Team == nil {
		return m.User.ID == u.ID
	}
	return member != nil && slices.ContainsFunc(member.Teams, func(t identity.TeamMembership) bool { return t.TeamID == m.Team.ID })
}

// nominee is who is to become a maintainer: the id of a user, or that of a team.
type nominee struct{ user, team string }

// maxNominees is how many maintainers a cluster can be created with.
const maxNominees = 100

// nomineeField is what the fields of one nominee among several begin with.
func nomineeField(i int) string { return "maintainers[" + strconv.Itoa(i) + "]." }

// appoint makes a nominee a maintainer of a cluster. It fails with a "Validation Failed" error about
// the field user or team, after a prefix, when there is no such user or team in the organization, or
// when it maintains the cluster already.
func appoint(q *db.Q, c Cluster, n nominee, field string, now time.Time) (Maintainer, error) {
	var problems core.Problems
	m := Maintainer{ID: core.NewID(), CreatedAt: now}
	var err error
	if n.team != "" {
		field += "team"
		m.Team, err = teamByID(q, c.OrganizationID, n.team)
	} else {
		field += "user"
		m.User, err = memberByID(q, c.OrganizationID, n.user)
	}
	if err != nil {
		return m, err
	}
	if m.User == nil && m.Team == nil {
		problems.Add(field, "must be the id of one in this organization")
		return m, problems.Err()
	}
	added, err := insertMaintainer(q, c.ID, m)
	if err == nil && !added {
		problems.Add(field, "is already a maintainer of this cluster")
		return m, problems.Err()
	}
	return m, err
}
