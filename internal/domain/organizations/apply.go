package organizations

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// An OrganizationSpec describes an organization in the organization file. Fields that the file leaves out keep
// their value; in a new organization they get their default.
type OrganizationSpec struct {
	Line      int          `yaml:"-"`
	Slug      string       `yaml:"slug"`
	ID        string       `yaml:"id"`
	Name      *string      `yaml:"name"`
	Suspended *bool        `yaml:"suspended"`
	Features  FeaturesSpec `yaml:"features"`
	Limits    LimitsSpec   `yaml:"limits"`
}

// A FeaturesSpec names the features to turn on or off.
type FeaturesSpec struct {
	Teams                             *bool `yaml:"teams"`
	CloneMirrors                      *bool `yaml:"clone_mirrors"`
	EarlyFailures                     *bool `yaml:"early_failures"`
	HostedAgents                      *bool `yaml:"hosted_agents"`
	AgentImages                       *bool `yaml:"agent_images"`
	BuildExports                      *bool `yaml:"build_exports"`
	ExpandedWebhookTriggers           *bool `yaml:"expanded_webhook_triggers"`
	EventLogAPI                       *bool `yaml:"event_log_api"`
	EventBusBuildMetaData             *bool `yaml:"event_bus_build_meta_data"`
	Tracestate                        *bool `yaml:"tracestate"`
	MembersManageNotificationServices *bool `yaml:"members_manage_notification_services"`
	SelfHostedSessions                *bool `yaml:"self_hosted_sessions"`
}

// A LimitsSpec names the limits to change. StackRequestsPerSecond changes the limits of the scopes that it
// names.
type LimitsSpec struct {
	Line                   int            `yaml:"-"`
	Stacks                 *int           `yaml:"stacks"`
	StackRequestsPerSecond map[string]int `yaml:"stack_requests_per_second"`
	RESTRequestsPerSecond  *int           `yaml:"rest_requests_per_second"`
	BuildRetentionDays     *int           `yaml:"build_retention_days"`
	TriggeredBuilds        *int           `yaml:"triggered_builds"`
	FairShare              FairShareSpec  `yaml:"fair_share"`
}

// A FairShareSpec turns fair share on or off and names the weights to change.
type FairShareSpec struct {
	Line    int            `yaml:"-"`
	Enabled *bool          `yaml:"enabled"`
	Weights map[string]int `yaml:"weights"`
}

// maxWeight is the largest weight of a pipeline.
const maxWeight = 1000

// maxRetentionDays is the longest retention of finished builds, a century. Zero keeps them forever.
const maxRetentionDays = 36500

// Check reports errors in the spec that can be found without a database.
func (s OrganizationSpec) Check(c *core.Complaints) {
	if !identity.ValidOrganizationSlug(s.Slug) {
		c.Add(s.Line, "%q cannot be the slug of an organization: it takes lower-case letters, digits and hyphens, and must not be one of the server's own paths", s.Slug)
	}
	c.CheckID(s.Line, s.ID)
	if s.Name != nil {
		checkName(c, s.Line, *s.Name)
	}
	s.Limits.check(c)
}

func (s LimitsSpec) check(c *core.Complaints) {
	if s.Stacks != nil && *s.Stacks < 0 {
		c.Add(s.Line, "stacks must not be negative")
	}
	if s.RESTRequestsPerSecond != nil && *s.RESTRequestsPerSecond < 0 {
		c.Add(s.Line, "rest_requests_per_second must not be negative; 0 is no limit")
	}
	if s.BuildRetentionDays != nil && (*s.BuildRetentionDays < 0 || *s.BuildRetentionDays > maxRetentionDays) {
		c.Add(s.Line, "build_retention_days must be an integer from 0, which keeps builds for ever, to %d", maxRetentionDays)
	}
	if s.TriggeredBuilds != nil && *s.TriggeredBuilds < 0 {
		c.Add(s.Line, "triggered_builds must not be negative")
	}
	for _, scope := range slices.Sorted(maps.Keys(s.StackRequestsPerSecond)) {
		if !slices.Contains(identity.StackScopes(), scope) {
			c.Add(s.Line, "unknown scope %q in stack_requests_per_second; known are %s", scope, strings.Join(identity.StackScopes(), ", "))
		} else if s.StackRequestsPerSecond[scope] < 1 {
			c.Add(s.Line, "the limit of the scope %s must be at least 1", scope)
		}
	}
	s.FairShare.check(c)
}

func (s FairShareSpec) check(c *core.Complaints) {
	for _, slug := range slices.Sorted(maps.Keys(s.Weights)) {
		if weight := s.Weights[slug]; weight < 1 || weight > maxWeight {
			c.Add(s.Line, "the weight of the pipeline %s must be an integer from 1 to %d", slug, maxWeight)
		}
	}
}

// ApplyOrganization creates or updates an organization and returns it. It returns nil after a complaint,
// because nothing that belongs to the organization can be applied then. Files are applied one at a time: the
// first call in a transaction waits until other transactions that apply a file have ended.
func ApplyOrganization(q *db.Q, spec OrganizationSpec, now time.Time, changes *core.Changes, complaints *core.Complaints) (*identity.Organization, error) {
	if err := q.LockName("organization file"); err != nil {
		return nil, err
	}
	org, err := lockOrganization(q, spec.Slug)
	if core.KindOf(err) == core.NotFound {
		return createOrganization(q, spec, now, changes, complaints)
	}
	if err != nil {
		return nil, err
	}
	if id, given := core.ParseID(spec.ID); given && id != org.ID {
		complaints.Add(spec.Line, "the organization %s exists with the id %s, which cannot be changed", org.Slug, org.ID)
		return nil, nil
	}
	wanted := *org
	spec.applyTo(&wanted)
	if reflect.DeepEqual(wanted, *org) {
		return org, nil
	}
	changes.Changed("organization", org.Slug)
	return &wanted, identity.UpdateOrganization(q, wanted)
}

func createOrganization(q *db.Q, spec OrganizationSpec, now time.Time, changes *core.Changes, complaints *core.Complaints) (*identity.Organization, error) {
	id, ok, err := db.FreeID(q, "organizations", spec.ID)
	if err != nil {
		return nil, err
	}
	if !ok {
		complaints.Add(spec.Line, "the id %s belongs to another organization", id)
		return nil, nil
	}
	org := identity.Organization{
		ID: id, Slug: spec.Slug, Name: spec.Slug,
		Features: identity.DefaultFeatures, Limits: identity.DefaultLimits, CreatedAt: now,
	}
	spec.applyTo(&org)
	changes.Created("organization", org.Slug)
	return &org, identity.InsertOrganization(q, org)
}

// applyTo writes the fields that the spec gives into org.
func (s OrganizationSpec) applyTo(org *identity.Organization) {
	core.SetGiven(&org.Name, s.Name)
	core.SetGiven(&org.Suspended, s.Suspended)
	s.Features.applyTo(&org.Features)
	s.Limits.applyTo(&org.Limits)
}

func (s FeaturesSpec) applyTo(f *identity.Features) {
	core.SetGiven(&f.Teams, s.Teams)
	core.SetGiven(&f.CloneMirrors, s.CloneMirrors)
	core.SetGiven(&f.EarlyFailures, s.EarlyFailures)
	core.SetGiven(&f.HostedAgents, s.HostedAgents)
	core.SetGiven(&f.AgentImages, s.AgentImages)
	core.SetGiven(&f.BuildExports, s.BuildExports)
	core.SetGiven(&f.ExpandedWebhookTriggers, s.ExpandedWebhookTriggers)
	core.SetGiven(&f.EventLogAPI, s.EventLogAPI)
	core.SetGiven(&f.EventBusBuildMetaData, s.EventBusBuildMetaData)
	core.SetGiven(&f.Tracestate, s.Tracestate)
	core.SetGiven(&f.MembersManageNotificationServices, s.MembersManageNotificationServices)
	core.SetGiven(&f.SelfHostedSessions, s.SelfHostedSessions)
}

func (s LimitsSpec) applyTo(l *identity.Limits) {
	core.SetGiven(&l.Stacks, s.Stacks)
	core.SetGiven(&l.RESTRequestsPerSecond, s.RESTRequestsPerSecond)
	core.SetGiven(&l.BuildRetentionDays, s.BuildRetentionDays)
	core.SetGiven(&l.TriggeredBuilds, s.TriggeredBuilds)
	core.SetGiven(&l.FairShare.On, s.FairShare.Enabled)
	l.StackRequestsPerSecond = merged(l.StackRequestsPerSecond, s.StackRequestsPerSecond)
	l.FairShare.Weights = merged(l.FairShare.Weights, s.FairShare.Weights)
}

// merged returns numbers with the values of overrides on top. It never changes numbers, which the organization
// loaded before also uses.
func merged(numbers, overrides map[string]int) map[string]int {
	if len(overrides) == 0 {
		return numbers
	}
	result := make(map[string]int, len(numbers)+len(overrides))
	maps.Copy(result, numbers)
	maps.Copy(result, overrides)
	return result
}

// checkName reports a name that is blank or too long.
func checkName(c *core.Complaints, line int, name string) {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxName {
		c.Add(line, "a name must have 1 to %d characters", maxName)
	}
}
