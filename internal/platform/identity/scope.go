package identity

import (
	"slices"
	"strings"
)

// Scope is a right that an access token carries.
type Scope string

// EveryScope, on a token, means all current and future scopes.
const EveryScope Scope = "*"

// The scopes.
const (
	ReadBuilds     Scope = "read_builds"
	WriteBuilds    Scope = "write_builds"
	ReadBuildLogs  Scope = "read_build_logs"
	WriteBuildLogs Scope = "write_build_logs"
	ReadJobEnv     Scope = "read_job_env"
	ReadArtifacts  Scope = "read_artifacts"
	WriteArtifacts Scope = "write_artifacts"

	ReadPipelines          Scope = "read_pipelines"
	WritePipelines         Scope = "write_pipelines"
	ReadPipelineTemplates  Scope = "read_pipeline_templates"
	WritePipelineTemplates Scope = "write_pipeline_templates"
	ReadRules              Scope = "read_rules"
	WriteRules             Scope = "write_rules"

	ReadAgents         Scope = "read_agents"
	WriteAgents        Scope = "write_agents"
	ReadClusters       Scope = "read_clusters"
	WriteClusters      Scope = "write_clusters"
	ReadSecretsDetails Scope = "read_secrets_details"
	WriteSecrets       Scope = "write_secrets"

	ReadOrganizations                     Scope = "read_organizations"
	WriteOrganizations                    Scope = "write_organizations"
	ReadOrganizationSettings              Scope = "read_organization_settings"
	WriteOrganizationSettings             Scope = "write_organization_settings"
	ReadOrganizationInvitations           Scope = "read_organization_invitations"
	WriteOrganizationInvitations          Scope = "write_organization_invitations"
	ReadOrganizationRepositoryConnections Scope = "read_organization_repository_connections"
	ReadNotificationServices              Scope = "read_notification_services"
	WriteNotificationServices             Scope = "write_notification_services"
	ReadTeams                             Scope = "read_teams"
	WriteTeams                            Scope = "write_teams"
	ReadUser                              Scope = "read_user"
	ReadAuditEvents                       Scope = "read_audit_events"

	ReadSuites    Scope = "read_suites"
	WriteSuites   Scope = "write_suites"
	ReadTestPlan  Scope = "read_test_plan"
	WriteTestPlan Scope = "write_test_plan"
)

// AllScopes lists every valid scope by name. The last line has names that existing clients request and that
// nothing here uses.
var AllScopes = []Scope{
	ReadBuilds, WriteBuilds, ReadBuildLogs, WriteBuildLogs, ReadJobEnv, ReadArtifacts, WriteArtifacts,
	ReadPipelines, WritePipelines, ReadPipelineTemplates, WritePipelineTemplates, ReadRules, WriteRules,
	ReadAgents, WriteAgents, ReadClusters, WriteClusters, ReadSecretsDetails, WriteSecrets,
	ReadOrganizations, WriteOrganizations, ReadOrganizationSettings, WriteOrganizationSettings,
	ReadOrganizationInvitations, WriteOrganizationInvitations, ReadOrganizationRepositoryConnections,
	ReadNotificationServices, WriteNotificationServices, ReadTeams, WriteTeams, ReadUser, ReadAuditEvents,
	ReadSuites, WriteSuites, ReadTestPlan, WriteTestPlan,
	"read_registries", "write_registries", "delete_registries", "read_packages", "write_packages", "delete_packages", "read_portals", "write_portals", "graphql",
}

// Valid reports whether a token can have this scope.
func (s Scope) Valid() bool { return s == EveryScope || slices.Contains(AllScopes, s) }

// Scopes are the scopes of one token.
type Scopes []Scope

// Has reports whether the token has a scope.
func (ss Scopes) Has(s Scope) bool {
	return slices.Contains(ss, EveryScope) || slices.Contains(ss, s)
}

// Names returns the scopes by name, with EveryScope expanded.
func (ss Scopes) Names() []string {
	list := []Scope(ss)
	if slices.Contains(ss, EveryScope) {
		list = AllScopes
	}
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = string(s)
	}
	return names
}

// Unknown returns the invalid scopes, joined for a message; empty when all are valid.
func (ss Scopes) Unknown() string {
	var unknown []string
	for _, s := range ss {
		if !s.Valid() {
			unknown = append(unknown, string(s))
		}
	}
	return strings.Join(unknown, ", ")
}
