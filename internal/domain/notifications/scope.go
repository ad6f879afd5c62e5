package notifications

import (
	"fmt"
	"slices"
	"strings"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/organizations"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Scope says which pipelines a receiver is notified of.
type Scope string

// The scopes. All but the first select by a list of ids.
const (
	All             Scope = "all"
	SomeProjects    Scope = "some_projects"
	ExcludeProjects Scope = "exclude_projects"
	SomeTeams       Scope = "some_teams"
	SomeClusters    Scope = "some_clusters"
)

// Values lists every scope.
func (Scope) Values() []string {
	return []string{string(All), string(SomeProjects), string(ExcludeProjects), string(SomeTeams), string(SomeClusters)}
}

// maxScopeIDs is how many ids a scope selects at most.
const maxScopeIDs = 500

// A subject is what the ids of a scope identify.
type subject struct {
	name string
	// existing returns those of the ids that an organization has.
	existing func(q *db.Q, organizationID string, ids []string) ([]string, error)
}

var (
	ofPipelines = &subject{"pipeline", pipelines.Existing}
	ofTeams     = &subject{"team", organizations.ExistingTeams}
	ofClusters  = &subject{"cluster", clusters.Existing}
)

// subject returns what the scope's ids identify; nil for a scope without ids.
func (s Scope) subject() *subject {
	switch s {
	case SomeProjects, ExcludeProjects:
		return ofPipelines
	case SomeTeams:
		return ofTeams
	case SomeClusters:
		return ofClusters
	default:
		return nil
	}
}

// A Target is what a notification is about, as far as scopes ask. What an agent or a token does has no pipeline.
type Target struct {
	PipelineID string
	TeamIDs    []string // those with access to the pipeline
	ClusterID  string
}

// Covers reports whether the scope of the receiver selects a target. When everything that a scope selected was deleted,
// it selects nothing.
func (r *Receiver) Covers(t Target) bool {
	switch r.Scope {
	case All:
		return true
	case SomeProjects:
		return slices.Contains(r.ScopeIDs, t.PipelineID)
	case ExcludeProjects:
		return t.PipelineID != "" && !slices.Contains(r.ScopeIDs, t.PipelineID)
	case SomeTeams:
		return slices.ContainsFunc(t.TeamIDs, func(id string) bool { return slices.Contains(r.ScopeIDs, id) })
	case SomeClusters:
		return slices.Contains(r.ScopeIDs, t.ClusterID)
	default:
		return false
	}
}

// setScope gives the receiver a scope and ids that a request names; nil: it does not. Ids stay when only the scope
// changes and they can mean the same in it.
func (r *Receiver) setScope(q *db.Q, scope *Scope, ids *[]string, problems *core.Problems) error {
	before := *r
	if scope != nil {
		if !slices.Contains(scope.Values(), string(*scope)) {
			problems.Add("scope", "must be one of %s", strings.Join(scope.Values(), ", "))
			return nil
		}
		r.Scope = *scope
		if r.Scope.subject() != before.Scope.subject() {
			r.ScopeIDs = []string{}
		}
	}
	if ids != nil {
		var broken string
		if r.ScopeIDs, broken = distinctIDs(*ids); broken != "" {
			problems.Add("scope_uuids", "%s", broken)
			return nil
		}
	}
	if r.Scope == before.Scope && slices.Equal(r.ScopeIDs, before.ScopeIDs) {
		return nil // also when all that it selected is gone
	}
	return r.checkScope(q, problems)
}

// distinctIDs returns ids in their canonical form, each once, or the rule that they break.
func distinctIDs(given []string) (ids []string, broken string) {
	if len(given) > maxScopeIDs {
		return nil, fmt.Sprintf("must have at most %d items", maxScopeIDs)
	}
	ids = []string{}
	for _, text := range given {
		id, ok := core.ParseID(text)
		if !ok {
			return nil, fmt.Sprintf("has %.50q, which is not a UUID", text)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, ""
}

// checkScope notes what is wrong with the ids of a scope.
func (r *Receiver) checkScope(q *db.Q, problems *core.Problems) error {
	of := r.Scope.subject()
	switch {
	case of == nil && len(r.ScopeIDs) > 0:
		problems.Add("scope_uuids", "must be left out or empty when scope is %s", r.Scope)
	case of != nil && len(r.ScopeIDs) == 0 && r.Scope != ExcludeProjects:
		problems.Add("scope_uuids", "must have at least one %s when scope is %s", of.name, r.Scope)
	}
	if of == nil || len(r.ScopeIDs) == 0 {
		return nil
	}
	existing, err := of.existing(q, r.OrganizationID, r.ScopeIDs)
	if err != nil {
		return err
	}
	for _, id := range r.ScopeIDs {
		if !slices.Contains(existing, id) {
			problems.Add("scope_uuids", "has %s, which is not a %s of this organization", id, of.name)
		}
	}
	return nil
}

// dropDeleted removes the ids of what was deleted from the scopes of an organization's receivers.
func dropDeleted(q *db.Q, organizationID string, receivers []*Receiver) error {
	selected := make(map[*subject][]string)
	for _, r := range receivers {
		if of := r.Scope.subject(); of != nil && len(r.ScopeIDs) > 0 {
			selected[of] = append(selected[of], r.ScopeIDs...)
		}
	}
	for of, ids := range selected {
		existing, err := of.existing(q, organizationID, ids)
		if err != nil {
			return err
		}
		known := make(map[string]bool, len(existing))
		for _, id := range existing {
			known[id] = true
		}
		for _, r := range receivers {
			if r.Scope.subject() == of {
				r.ScopeIDs = slices.DeleteFunc(r.ScopeIDs, func(id string) bool { return !known[id] })
			}
		}
	}
	return nil
}
