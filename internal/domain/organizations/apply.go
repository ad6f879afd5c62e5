package organizations

import (
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/domain/quotas"
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
	Limits    quotas.Spec  `yaml:"limits"`
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

// Check reports errors in the spec that can be found without a database.
func (s OrganizationSpec) Check(c *core.Complaints) {
	if !identity.ValidOrganizationSlug(s.Slug) {
		c.Add(s.Line, "%q cannot be the slug of an organization: it takes lower-case letters, digits and hyphens, and must not be one of the server's own paths", s.Slug)
	}
	c.CheckID(s.Line, s.ID)
	if s.Name != nil {
		checkName(c, s.Line, *s.Name)
	}
	s.Limits.Check(c)
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
		Features: identity.DefaultFeatures, Limits: quotas.Default.Encode(), CreatedAt: now,
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
	s.Limits.ApplyTo(org)
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

// checkName reports a name that is blank or too long.
func checkName(c *core.Complaints, line int, name string) {
	if strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > maxName {
		c.Add(line, "a name must have 1 to %d characters", maxName)
	}
}
