// Package organizations stores the organizations of an installation with their members, teams and members'
// access tokens. Package identity reads these tables to authenticate callers and to decide what they can do.
//
// A user exists once, identified by email; a membership connects a user with one organization; an access token
// belongs to a user and has access only to the organizations listed for it. Removing a member therefore deletes
// the membership, the team memberships and the access of tokens, but not the user.
//
// Teams decide who sees which pipelines once the organization enables them. Only its members and administrators
// see a secret team. Maintainers of a team manage its members and, for pipelines that they can manage
// themselves, its access; only administrators change anything else about teams.
//
// identity.Directory caches these tables. Changes are written through Directory.Change and take effect with the
// next request. The organization file is applied in apply.go and the files beside it. Clusters and pipelines
// have their own packages.
package organizations

import (
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Service manages organizations, members and teams.
type Service struct {
	db        *db.DB
	directory *identity.Directory
	public    core.PublicURL
	clock     core.Clock

	onMemberRemoved []func(q *db.Q, organizationID, userID string) error
	onTeamsEnabled  []func(q *db.Q, everyone Team) error
}

// New returns a Service. directory caches parts of the database d. The functions onMemberRemoved are called in
// the transaction that removes a member; they remove what other packages store about the member.
func New(d *db.DB, directory *identity.Directory, public core.PublicURL, clock core.Clock, onMemberRemoved ...func(q *db.Q, organizationID, userID string) error) *Service {
	return &Service{db: d, directory: directory, public: public, clock: clock, onMemberRemoved: onMemberRemoved}
}

// organizationPath is the path prefix of all routes of an organization.
const organizationPath = "/v2/organizations/{org}"

// Routes returns the package's part of the route table.
func (s *Service) Routes() []route.Route {
	return slices.Concat(
		s.callerRoutes(),
		s.organizationRoutes(),
		s.storageRoutes(),
		s.memberRoutes(),
		s.invitationRoutes(),
		s.teamRoutes(),
		s.teamMemberRoutes(),
		s.teamPipelineRoutes(),
		avatarRoutes(),
	)
}
