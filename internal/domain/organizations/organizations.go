// Package organizations keeps the tenants of an installation and the people in them: what an
// organization is called and may use, its members, its teams, and the access tokens that members call
// with. Who somebody is and what they may do is decided by package identity from what is kept here.
//
// Three ideas hold it together. A user is one person in every organization, known by email; a
// membership ties a user to one organization; an access token belongs to a user and reaches only the
// organizations listed for it. So removing a member takes the membership, the places in teams and the
// reach of tokens, and leaves the person.
//
// Teams say who sees which pipelines, once an organization has them enabled. A team may be secret,
// which hides it from everybody but its members and administrators. Its maintainers may change who is
// in it and, for pipelines that they may manage themselves, what access it has; all else about teams is
// for administrators.
//
// What changes here is remembered by identity.Directory, so it is written through Directory.Change and
// holds from the next request on. The organization file's words for all of this are in apply.go and the
// files beside it. Clusters and pipelines have rooms of their own.
package organizations

import (
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Service is what can be done to organizations, members and teams.
type Service struct {
	db        *db.DB
	directory *identity.Directory
	public    core.PublicURL
	clock     core.Clock
}

// New returns the service on a database and the directory that remembers parts of it.
func New(d *db.DB, directory *identity.Directory, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, directory: directory, public: public, clock: clock}
}

// organizationPath is where everything about one organization is.
const organizationPath = "/v2/organizations/{org}"

// Routes returns the room's part of the route table.
func (s *Service) Routes() []route.Route {
	return slices.Concat(
		s.callerRoutes(),
		s.organizationRoutes(),
		s.memberRoutes(),
		s.teamRoutes(),
		s.teamMemberRoutes(),
		s.teamPipelineRoutes(),
		avatarRoutes(),
	)
}
