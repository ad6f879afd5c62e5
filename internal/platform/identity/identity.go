// Package identity knows organizations, the people in them and the credentials they hold: who is
// calling, and what they may do.
//
// A Directory answers both questions from memory. Every change to what it remembers goes through
// Directory.Change, which takes effect at once in this process and within half a second in others.
// Rooms ask a Caller for its Membership in an organization and a Membership for a Permission; they
// never look at roles themselves.
package identity

import (
	"maps"
	"slices"
	"time"

	"stackyard/internal/platform/core"
)

// An Organization is a tenant: nothing of one organization is visible to another.
type Organization struct {
	ID        string
	Slug      string
	Name      string
	Suspended bool
	Features  Features
	Limits    Limits
	CreatedAt time.Time
}

// Features are the switches that gate what the specification says they gate.
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

// Limits bound what an organization uses.
type Limits struct {
	// Stacks is the number of active stacks.
	Stacks int `json:"stacks" yaml:"stacks"`
	// StackRequestsPerSecond overrides the stacks API's rate limits, by scope.
	StackRequestsPerSecond map[string]int `json:"stack_requests_per_second,omitempty" yaml:"stack_requests_per_second"`
	// RESTRequestsPerSecond bounds each user in the organization; 0 is no limit.
	RESTRequestsPerSecond int `json:"rest_requests_per_second" yaml:"rest_requests_per_second"`
	// BuildRetentionDays is how long finished builds are kept; 0 is for ever.
	BuildRetentionDays int `json:"build_retention_days,omitempty" yaml:"build_retention_days"`
	// TriggeredBuilds is how many builds may descend from one build through triggers.
	TriggeredBuilds int `json:"triggered_builds" yaml:"triggered_builds"`
	// FairShare is how pipelines share the agents of a queue.
	FairShare FairShare `json:"fair_share,omitzero" yaml:"fair_share"`
}

// FairShare lets the pipelines of a queue take turns, so that none has to wait for all the jobs of
// another. When it is on, the next job is of the pipeline that has the fewest running for its weight.
type FairShare struct {
	On bool `json:"on,omitempty"`
	// Weights are those of pipelines by their slugs; 1 for all others.
	Weights map[string]int `json:"weights,omitempty"`
}

// IsZero reports whether nobody has said anything about it.
func (f FairShare) IsZero() bool { return !f.On && len(f.Weights) == 0 }

// Weight is that of a pipeline.
func (f FairShare) Weight(slug string) int { return max(f.Weights[slug], 1) }

// stackLimits are the specification's limits of the stacks API, in requests a second, by scope.
var stackLimits = map[string]int{
	"list-scheduled-jobs":   10,
	"batch-reserve":         10,
	"show-job":              1000,
	"batch-load-job-states": 20,
	"finish-job":            100,
	"stack-notification":    200,
	"default":               10,
}

// StackScopes returns the rate-limit scopes of the stacks API.
func StackScopes() []string { return slices.Sorted(maps.Keys(stackLimits)) }

// OfStacks is how many requests of a scope a stack may make in a second.
func (l Limits) OfStacks(scope string) int {
	if n, ok := l.StackRequestsPerSecond[scope]; ok {
		return n
	}
	return stackLimits[scope]
}

// DefaultLimits are the limits of an organization that sets none.
var DefaultLimits = Limits{Stacks: 30, RESTRequestsPerSecond: 1000, TriggeredBuilds: 500}

// reservedSlugs are the first path segments that the server itself answers.
var reservedSlugs = []string{
	"api", "apple-touch-icon", "artifacts", "assets", "avatars", "badge", "badges", "docs", "favicon", "graphql",
	"healthz", "hooks", "livez", "login", "logout", "metrics", "oauth", "openapi", "organizations",
	"readyz", "robots", "settings", "signup", "sse", "user", "users", "v1", "v2", "v3", "version",
}

// ValidOrganizationSlug reports whether an organization may have this slug; one that the server's own
// paths begin with may not.
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

// UserView is a user as every API shows one.
type UserView struct {
	ID        string    `json:"id"`
	GraphQLID string    `json:"graphql_id"`
	Name      string    `json:"name"`
	Email     string    `json:"email"`
	AvatarURL string    `json:"avatar_url"`
	CreatedAt core.Time `json:"created_at"`
}

// View returns the user as every API shows one, or nil for no user.
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

// Role is what a member is in an organization.
type Role string

// The roles.
const (
	Admin  Role = "admin"
	Member Role = "member"
)

// Roles lists every role.
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

// A Membership is what a user is and may do in one organization.
type Membership struct {
	OrganizationID string
	Role           Role
	Permissions    []Permission
	SSOMode        SSOMode
	Teams          []TeamMembership
	CreatedAt      time.Time
}

// A TeamMembership is a user's place in one team.
type TeamMembership struct {
	TeamID             string
	Slug               string
	Role               TeamRole
	CanCreatePipelines bool
	CanCreateSuites    bool
}

// A Caller is who makes a request with an access token.
type Caller struct {
	Token       AccessToken
	User        User
	memberships map[string]*Membership // by organization, those that the token reaches
}

// Membership returns what the caller is in an organization, or nil when the caller, or the token,
// has nothing to do with it.
func (c *Caller) Membership(organizationID string) *Membership {
	return c.memberships[organizationID]
}

// Organizations returns the ids of the organizations that the caller's token reaches.
func (c *Caller) Organizations() []string {
	ids := make([]string, 0, len(c.memberships))
	for id := range c.memberships {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// HasScope reports whether the caller's token carries a scope.
func (c *Caller) HasScope(s Scope) bool { return c.Token.Scopes.Has(s) }
