// Package identity defines organizations, their members and their credentials: who is calling, and what the
// caller is allowed to do.
//
// A Directory answers both from its caches. Every change to cached data goes through Directory.Change, which
// takes effect at once in this process and within half a second in others. Packages get the Membership of a
// Caller in an organization and check a Permission of it; they never check roles themselves.
package identity

import (
	"encoding/json"
	"slices"
	"time"

	"stackyard/internal/platform/core"
)

// An Organization is a tenant: its data is invisible to other organizations.
type Organization struct {
	ID        string
	Slug      string
	Name      string
	Suspended bool
	Features  Features
	// Limits is what the organization can use, as JSON. The packages that enforce limits define them.
	Limits    json.RawMessage
	CreatedAt time.Time
}

// Features are the feature switches of the specification.
type Features struct {
	Teams                             bool `json:"teams" yaml:"teams"`
	CloneMirrors                      bool `json:"clone_mirrors" yaml:"clone_mirrors"`
	EarlyFailures                     bool `json:"early_failures" yaml:"early_failures"`
	HostedAgents                      bool `json:"hosted_agents" yaml:"hosted_agents"`
	AgentImages                       bool `json:"agent_images" yaml:"agent_images"`
	BuildExports                      bool `json:"build_exports" yaml:"build_exports"`
	ExpandedWebhookTriggers           bool `json:"expanded_webhook_triggers" yaml:"expanded_webhook_triggers"`
	EventLogAPI                       bool `json:"event_log_api" yaml:"event_log_api"`
	EventBusBuildMetaData             bool `json:"event_bus_build_meta_data" yaml:"event_bus_build_meta_data"`
	Tracestate                        bool `json:"tracestate" yaml:"tracestate"`
	MembersManageNotificationServices bool `json:"members_manage_notification_services" yaml:"members_manage_notification_services"`
	SelfHostedSessions                bool `json:"self_hosted_sessions" yaml:"self_hosted_sessions"`
}

// DefaultFeatures are the switches of an organization that sets none.
var DefaultFeatures = Features{
	CloneMirrors:            true,
	EarlyFailures:           true,
	HostedAgents:            true,
	AgentImages:             true,
	BuildExports:            true,
	ExpandedWebhookTriggers: true,
	EventLogAPI:             true,
	EventBusBuildMetaData:   true,
	Tracestate:              true,
}

// reservedSlugs are the first path segments of the server's own paths.
var reservedSlugs = []string{
	"api", "apple-touch-icon", "artifacts", "assets", "avatars", "badge", "badges", "docs", "favicon", "graphql",
	"healthz", "hooks", "livez", "login", "logout", "metrics", "oauth", "openapi", "organizations",
	"readyz", "robots", "settings", "signup", "sse", "user", "users", "v1", "v2", "v3", "version",
}

// ValidOrganizationSlug reports whether an organization can have this slug. It cannot start one of the server's
// own paths.
func ValidOrganizationSlug(slug string) bool {
	return core.ValidSlug(slug) && !slices.Contains(reservedSlugs, slug)
}

// A User is a person, the same in every organization they belong to.
type User struct {
	ID        string
	Email     string
	Name      string
	CreatedAt time.Time
}

// UserView is a user in API responses.
type UserView struct {
	ID        string    `json:"id"`
	GraphQLID string    `json:"graphql_id"`
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	AvatarURL string    `json:"avatar_url"`
	CreatedAt core.Time `json:"created_at"`
}

// View returns the user for API responses, or nil for no user.
func (u *User) View(public core.PublicURL) *UserView {
	if u == nil {
		return nil
	}
	return &UserView{
		ID:        u.ID,
		GraphQLID: core.GraphQLID("User", u.ID),
		Name:      u.Name,
		Email:     u.Email,
		AvatarURL: public.To("avatars", u.ID+".svg"),
		CreatedAt: core.At(u.CreatedAt),
	}
}

// Role is the role of a member in an organization.
type Role string

// The roles.
const (
	Admin  Role = "admin"
	Member Role = "member"
)

// Values lists every role.
func (Role) Values() []string { return []string{string(Admin), string(Member)} }

// SSOMode says whether a member must sign in through the organization's provider.
type SSOMode string

// The modes.
const (
	SSORequired SSOMode = "required"
	SSOOptional SSOMode = "optional"
)

// Values lists every mode.
func (SSOMode) Values() []string { return []string{string(SSORequired), string(SSOOptional)} }

// A Membership is a user's role and permissions in one organization.
type Membership struct {
	OrganizationID string
	Role           Role
	Permissions    []Permission
	SSOMode        SSOMode
	Teams          []TeamMembership
	CreatedAt      time.Time
}

// A TeamMembership is a user's role in one team.
type TeamMembership struct {
	TeamID             string
	Slug               string
	Role               TeamRole
	CanCreatePipelines bool
	CanCreateSuites    bool
}

// A Caller is the user of an access token or a session.
type Caller struct {
	Token       AccessToken
	User        User
	memberships map[string]*Membership // by organization, those that the token has access to
}

// Membership returns the caller's membership in an organization, or nil when the caller, or the token, has no
// access to it.
func (c *Caller) Membership(organizationID string) *Membership {
	return c.memberships[organizationID]
}

// Organizations returns the ids of the organizations that the caller's token has access to.
func (c *Caller) Organizations() []string {
	ids := make([]string, 0, len(c.memberships))
	for id := range c.memberships {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// HasScope reports whether the caller's token has a scope.
func (c *Caller) HasScope(s Scope) bool { return c.Token.Scopes.Has(s) }
