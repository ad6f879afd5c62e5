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

// Scope selects the pipelines that a receiver is notified of.
type Scope string

// The scopes. All except the first select by id.
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

// maxScopeIDs limits the ids of a scope.
const maxScopeIDs = 500

// A subject is the kind of resource that the ids of a scope identify.
type subject struct {
	name string
	// existing returns the ids that exist in an organization.
	existing func(q *db.Q, organizationID string, ids []string) ([]string, error)
}

var (
	ofPipelines = &subject{"pipeline", pipelines.Existing}
	ofTeams     = &subject{"team", organizations.ExistingTeams}
	ofClusters  = &subject{"cluster", clusters.Existing}
)

// subject returns the kind of resource that the scope selects by; nil for All.
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

// A Target is the subject of a notification. Events of agents and tokens have no pipeline.
type Target struct {
	PipelineID string
	TeamIDs    []string // those with access to the pipeline
	ClusterID  string
}

// Covers reports whether the receiver's scope selects a target. A scope whose resources were all deleted selects nothing.
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

// setScope changes the scope and its ids to the given values; nil: unchanged. When only the scope changes, the ids stay
// if both scopes select by the same kind of resource, and are cleared otherwise.
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
		return nil // also if everything it selected was deleted
	}
	return r.checkScope(q, problems)
}

// distinctIDs returns canonical ids without duplicates, or the rule that the given ids break.
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

// checkScope adds problems with the ids of the scope.
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

// dropDeleted removes ids of deleted resources from the scopes of an organization's receivers.
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
