package accountpages

import (
	"slices"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/identity"
)

// A scopeGroup is a list of scopes about the same resource.
type scopeGroup struct {
	Title  string
	Scopes []scopeText
}

// A scopeText describes what a scope allows.
type scopeText struct {
	Scope   identity.Scope
	Text    string
	Changes bool // whether it allows changes
}

func sees(s identity.Scope, words string) scopeText    { return scopeText{s, words, false} }
func changes(s identity.Scope, words string) scopeText { return scopeText{s, words, true} }

// scopeGroups lists every scope that has an effect, in the order of the form.
var scopeGroups = []scopeGroup{
	{"Builds", []scopeText{
		sees(identity.ReadBuilds, "See builds, jobs and annotations"),
		changes(identity.WriteBuilds, "Start, cancel, rebuild, retry and unblock builds and jobs"),
		sees(identity.ReadBuildLogs, "Read job logs"),
		changes(identity.WriteBuildLogs, "Delete job logs"),
		sees(identity.ReadJobEnv, "Read job environment variables"),
		sees(identity.ReadArtifacts, "See and download artifacts"),
		changes(identity.WriteArtifacts, "Delete artifacts"),
	}},
	{"Pipelines", []scopeText{
		sees(identity.ReadPipelines, "See pipelines"),
		changes(identity.WritePipelines, "Create, change, archive and delete pipelines"),
		sees(identity.ReadPipelineTemplates, "See pipeline templates"),
		changes(identity.WritePipelineTemplates, "Create, change and delete pipeline templates"),
		sees(identity.ReadRules, "See rules between pipelines"),
		changes(identity.WriteRules, "Create, change and delete rules between pipelines"),
	}},
	{"Agents and clusters", []scopeText{
		sees(identity.ReadAgents, "See agents"),
		changes(identity.WriteAgents, "Stop, pause and resume agents"),
		sees(identity.ReadClusters, "See clusters, queues and agent tokens"),
		changes(identity.WriteClusters, "Create, change and delete clusters, queues and agent tokens"),
		sees(identity.ReadSecretsDetails, "See which secrets there are, without their values"),
		changes(identity.WriteSecrets, "Create, change and delete secrets"),
	}},
	{"Organization", []scopeText{
		sees(identity.ReadOrganizations, "See organizations and their members"),
		changes(identity.WriteOrganizations, "Change organizations and their members"),
		sees(identity.ReadOrganizationSettings, "See the settings of organizations"),
		changes(identity.WriteOrganizationSettings, "Change the settings of organizations"),
		sees(identity.ReadOrganizationInvitations, "See invitations"),
		changes(identity.WriteOrganizationInvitations, "Send and revoke invitations"),
		sees(identity.ReadOrganizationRepositoryConnections, "See connections to source hosts"),
		sees(identity.ReadNotificationServices, "See notification services"),
		changes(identity.WriteNotificationServices, "Create, change and delete notification services"),
		sees(identity.ReadAuditEvents, "See the audit log"),
	}},
	{"People", []scopeText{
		sees(identity.ReadUser, "See your name and email"),
		sees(identity.ReadTeams, "See teams"),
		changes(identity.WriteTeams, "Create, change and delete teams"),
	}},
	{"Tests", []scopeText{
		sees(identity.ReadSuites, "See test suites"),
		changes(identity.WriteSuites, "Create, change and delete test suites"),
		sees(identity.ReadTestPlan, "See test plans"),
		changes(identity.WriteTestPlan, "Create test plans"),
	}},
}

// requestedScopes are the scopes that an application requests, described for a user.
type requestedScopes struct {
	Everything bool // including future scopes
	All        bool // all current scopes
	Changes    []scopeText
	Sees       []scopeText
	// Unused are valid scopes without an effect, by name.
	Unused []string
}

// Count returns the number of scopes as text.
func (a requestedScopes) Count() string {
	return pages.Count(len(a.Changes)+len(a.Sees)+len(a.Unused), "thing")
}

// describeScopes describes scopes in the order of the groups.
func describeScopes(scopes identity.Scopes) requestedScopes {
	if slices.Contains(scopes, identity.EveryScope) {
		return requestedScopes{Everything: true}
	}
	a := requestedScopes{All: true}
	known := make(map[identity.Scope]bool)
	for _, group := range scopeGroups {
		for _, w := range group.Scopes {
			known[w.Scope] = true
			switch {
			case !slices.Contains(scopes, w.Scope):
				a.All = false
			case w.Changes:
				a.Changes = append(a.Changes, w)
			default:
				a.Sees = append(a.Sees, w)
			}
		}
	}
	for _, s := range scopes {
		if !known[s] {
			a.Unused = append(a.Unused, string(s))
		}
	}
	return a
}

// scopeForm is the part of a form that selects scopes.
type scopeForm struct {
	Groups  []scopeGroup
	Chosen  identity.Scopes
	Problem pages.Problems
}

// newScopeForm returns a form with some scopes chosen.
func newScopeForm(chosen identity.Scopes, wrong pages.Problems) scopeForm {
	return scopeForm{scopeGroups, chosen, wrong}
}

// Has reports whether a scope is chosen.
func (f scopeForm) Has(s identity.Scope) bool { return slices.Contains(f.Chosen, s) }

// Every reports whether all scopes are chosen.
func (f scopeForm) Every() bool { return f.Has(identity.EveryScope) }

// formScopes returns the scopes among the values of a form's field. If "every scope" is chosen, others are
// dropped.
func formScopes(values []string) identity.Scopes {
	var scopes identity.Scopes
	for _, v := range values {
		if identity.Scope(v) == identity.EveryScope {
			return identity.Scopes{identity.EveryScope}
		}
		scopes = append(scopes, identity.Scope(v))
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}
