package identity

import "slices"

// Permission is something that a user can be allowed to do in an organization, independent of the token.
type Permission string

// Permissions that an administrator grants to members one by one.
const (
	StopAgents            Permission = "stop_agents"
	ManageHostedAgents    Permission = "manage_hosted_agents"
	ManageClusters        Permission = "manage_clusters"
	ViewSuiteTokens       Permission = "view_suite_tokens"
	CreatePublicPipelines Permission = "create_public_pipelines"
)

// Permissions that only administrators have.
const (
	ChangeOrganization Permission = "change_organization"
	ManageMembers      Permission = "manage_members"
	ManageTeams        Permission = "manage_teams"
	ManageTemplates    Permission = "manage_pipeline_templates"
	ManageApplications Permission = "manage_oauth_applications"
	ReadAuditTrail     Permission = "read_audit_trail"
)

// Permissions that depend on teams, if the organization uses them.
const (
	CreatePipelines Permission = "create_pipelines"
	CreateSuites    Permission = "create_suites"
)

// Permissions that administrators have, and all members where the organization's features say so.
const (
	ManageNotificationServices Permission = "manage_notification_services"
)

// Permissions on one team; package organizations decides them.
const (
	ManageTeam Permission = "manage_team"
)

// Permissions on one pipeline; package pipelines decides them.
const (
	ReadPipeline   Permission = "read_pipeline"
	BuildPipeline  Permission = "build_pipeline"
	ManagePipeline Permission = "manage_pipeline"
)

// Permissions on one job; package builds decides them.
const (
	UnblockJob Permission = "unblock_job"
)

// Permissions on one suite; package suites decides them.
const (
	EditSuite Permission = "edit_suite"
)

// AdministratorsOnly reports whether only administrators have the permission.
func (p Permission) AdministratorsOnly() bool {
	switch p {
	case ChangeOrganization, ManageMembers, ManageTeams, ManageTemplates, ManageApplications, ReadAuditTrail:
		return true
	}
	return false
}

// GrantablePermissions lists the permissions that members can be granted.
var GrantablePermissions = []Permission{StopAgents, ManageHostedAgents, ManageClusters, ViewSuiteTokens, CreatePublicPipelines}

// Can reports whether the member has a permission in the organization. An administrator has all; a nil
// Membership has none.
func (m *Membership) Can(p Permission, org *Organization) bool {
	switch {
	case m == nil:
		return false
	case m.Role == Admin:
		return true
	case p == CreatePipelines:
		return !org.Features.Teams || slices.ContainsFunc(m.Teams, func(t TeamMembership) bool { return t.CanCreatePipelines })
	case p == ManageNotificationServices:
		return org.Features.MembersManageNotificationServices
	case p == CreateSuites:
		return !org.Features.Teams || slices.ContainsFunc(m.Teams, func(t TeamMembership) bool { return t.CanCreateSuites })
	default:
		return slices.Contains(m.Permissions, p)
	}
}
