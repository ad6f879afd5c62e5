package clusters

import (
	"slices"
	"strconv"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Maintainer is a user, or a team with all its members, that can change one cluster and everything in it.
// Either User or Team is set.
type Maintainer struct {
	ID        string
	User      *identity.User
	Team      *Team
	CreatedAt time.Time
}

// A Team is the summary of a team that maintains a cluster.
type Team struct{ ID, Slug, Name string }

// includes reports whether a user is this maintainer or a member of the maintaining team.
func (m Maintainer) includes(u *identity.User, member *identity.Membership) bool {
	if m.Team == nil {
		return m.User.ID == u.ID
	}
	return member != nil && slices.ContainsFunc(member.Teams, func(t identity.TeamMembership) bool { return t.TeamID == m.Team.ID })
}

// A maintainerRef names a user or a team by id. One of the two is set.
type maintainerRef struct{ user, team string }

// maxInitialMaintainers limits the maintainers that a request can create a cluster with.
const maxInitialMaintainers = 100

// maintainerField returns the prefix of field names of the i-th maintainer in a request.
func maintainerField(i int) string { return "maintainers[" + strconv.Itoa(i) + "]." }

// assignMaintainer makes a user or team a maintainer of a cluster. It fails with a "Validation Failed" error
// about the field user or team, prefixed with field, if the organization has no such user or team or if it
// already maintains the cluster.
func assignMaintainer(q *db.Q, c Cluster, n maintainerRef, field string, now time.Time) (Maintainer, error) {
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
