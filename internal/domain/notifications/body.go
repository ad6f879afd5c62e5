package notifications

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// serviceFields are the fields that creating and updating a notification service both take.
type serviceFields struct {
	route.Strict
	Description route.Opt[string]       `json:"description"`
	Branches    route.Opt[string]       `json:"branch_configuration" doc:"The branches that it is notified of, such as main feature/*; empty: all."`
	Scope       route.Opt[Scope]        `json:"scope" doc:"Which pipelines it is notified of; all unless given."`
	ScopeUUIDs  route.Opt[[]string]     `json:"scope_uuids" doc:"Pipelines of some_projects and exclude_projects, teams of some_teams, clusters of some_clusters."`
	BuildStates route.Opt[statesBody]   `json:"build_states" doc:"Switches for what it is notified of; off unless given."`
	Settings    route.Opt[settingsBody] `json:"settings" doc:"What the provider needs. Null takes a setting back to its default."`

	ID        route.Opt[json.RawMessage] `json:"id" doc:"Read-only."`
	GraphQLID route.Opt[json.RawMessage] `json:"graphql_id" doc:"Read-only."`
	URL       route.Opt[json.RawMessage] `json:"url" doc:"Read-only."`
	Enabled   route.Opt[json.RawMessage] `json:"enabled" doc:"Read-only: use …/enable and …/disable."`
	Broken    route.Opt[json.RawMessage] `json:"broken" doc:"Read-only."`
	CreatedAt route.Opt[json.RawMessage] `json:"created_at" doc:"Read-only."`
	CreatedBy route.Opt[json.RawMessage] `json:"created_by" doc:"Read-only."`
}

type notificationServiceCreate struct {
	Provider route.Opt[string] `json:"provider" doc:"The id of a provider."`
	serviceFields
}

type notificationServiceUpdate struct {
	Provider route.Opt[providerName] `json:"provider" doc:"The provider that the service has; it cannot be changed."`
	serviceFields
}

// providerName is the id of a provider, written as a text or as in a response.
type providerName string

// JSONSchema describes both ways.
func (providerName) JSONSchema() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{"type": "string"}, "name": map[string]any{"type": "string"}}},
	}}
}

// UnmarshalJSON reads both ways.
func (p *providerName) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, (*string)(p))
	}
	var provider struct {
		ID *string `json:"id"`
	}
	if json.Unmarshal(b, &provider) != nil || provider.ID == nil {
		return errors.New("it must be the id of a provider")
	}
	*p = providerName(*provider.ID)
	return nil
}

// statesBody is the build_states object of a request.
type statesBody map[string]json.RawMessage

// JSONSchema describes the switches.
func (statesBody) JSONSchema() map[string]any {
	properties := make(map[string]any)
	for name := range new(BuildStates).switches() {
		properties[name] = map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": "object", "properties": properties}
}

// merge sets the switches that were sent.
func (s statesBody) merge(states *BuildStates, problems *core.Problems) {
	switches := states.switches()
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(s)) {
		on := switches[name]
		switch {
		case on == nil && unknown < maxUnknown:
			unknown++
			problems.Add("build_states."+core.Cut(name, 100), "is not a known field")
		case on == nil:
		case string(s[name]) == "true", string(s[name]) == "false":
			*on = string(s[name]) == "true"
		default:
			problems.Add("build_states."+name, "must be true or false")
		}
	}
}

// merge gives a receiver what was sent, apart from its settings and what never changes.
func (f *serviceFields) merge(q *db.Q, r *Receiver, problems *core.Problems) error {
	f.Description.To(&r.Description)
	if f.Branches.Set {
		r.Branches = core.BranchFilter(f.Branches.Value)
	}
	r.check(problems)
	if f.BuildStates.Null {
		problems.Add("build_states", "must be an object, not null")
	}
	f.BuildStates.Value.merge(&r.States, problems)
	if f.Settings.Null {
		problems.Add("settings", "must be an object, not null")
	}
	var scope *Scope
	var ids *[]string
	if f.Scope.Set {
		scope = &f.Scope.Value
	}
	if f.ScopeUUIDs.Set {
		ids = &f.ScopeUUIDs.Value
	}
	return r.setScope(q, scope, ids, problems)
}

// readOnly returns the fields that only responses have, by name, as they were sent.
func (f *serviceFields) readOnly() map[string]route.Opt[json.RawMessage] {
	return map[string]route.Opt[json.RawMessage]{
		"id": f.ID, "graphql_id": f.GraphQLID, "url": f.URL, "enabled": f.Enabled, "broken": f.Broken,
		"created_at": f.CreatedAt, "created_by": f.CreatedBy,
	}
}

// checkReadOnly notes read-only fields that were sent with another value than the one that they have.
func (f *serviceFields) checkReadOnly(now map[string]any, problems *core.Problems) {
	sent := f.readOnly()
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		if !sent[name].Set {
			continue
		}
		current, shown := now[name]
		var value any
		if raw := sent[name].Value; len(raw) > 0 && json.Unmarshal(raw, &value) != nil || !shown || !reflect.DeepEqual(value, current) {
			problems.Add(name, "%s", readOnlyRule(name))
		}
	}
}

func readOnlyRule(name string) string {
	if name == "enabled" {
		return "is read-only; use PUT …/enable or PUT …/disable"
	}
	return "is read-only"
}

// asShown returns a view as whoever gets it decodes it.
func asShown(v notificationServiceView) (shown map[string]any, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return shown, json.Unmarshal(text, &shown)
}

// checkProvider returns the provider of a new receiver, or nil after noting why there is none.
func (s *Service) checkProvider(org *identity.Organization, id string, problems *core.Problems) *Provider {
	p := ProviderByID(id)
	switch {
	case id == "":
		problems.Add("provider", "is required; it is one of %s", creatable())
	case p == nil:
		problems.Add("provider", "must be one of %s", creatable())
	case p.ConnectedOnly:
		problems.Add("provider", "cannot be %s, which cannot be created over the API; connect it through the web interface first", p.ID)
	case !p.Available(org.Features):
		problems.Add("provider", "cannot be %s, which is not available to this organization", p.ID)
	default:
		return p
	}
	return nil
}

func (s *Service) postReceiver(r *route.Request, body notificationServiceCreate) (notificationServiceView, error) {
	var wrong core.Problems
	body.checkReadOnly(nil, &wrong)
	receiver := &Receiver{
		ID:             core.NewID(),
		OrganizationID: r.Org.ID,
		Provider:       s.checkProvider(r.Org, body.Provider.Value, &wrong),
		Scope:          All,
		ScopeIDs:       []string{},
		CreatedBy:      &r.Caller.User,
		CreatedAt:      s.clock(),
	}
	settings, err := s.create(r.Context(), receiver, func(q *db.Q, receiver *Receiver) (settings Settings, err error) {
		problems := slices.Clone(wrong)
		if err := body.merge(q, receiver, &problems); err != nil {
			return nil, err
		}
		if receiver.Provider != nil {
			settings = receiver.Provider.create(body.Settings.Value, r.Org.Features, &problems)
		}
		return settings, problems.Err()
	})
	return s.viewUnless(r, receiver, settings, err)
}

func (s *Service) patchReceiver(r *route.Request, receiver *Receiver, body notificationServiceUpdate) (notificationServiceView, error) {
	receiver, settings, err := s.change(r.Context(), r.Org.ID, receiver.ID, func(q *db.Q, receiver *Receiver, stored Settings) (Settings, error) {
		var problems core.Problems
		now, err := asShown(s.view(r.Org, receiver, stored))
		if err != nil {
			return nil, fmt.Errorf("show notification service %s: %w", receiver.ID, err)
		}
		body.checkReadOnly(now, &problems)
		if body.Provider.Set && string(body.Provider.Value) != receiver.Provider.ID {
			problems.Add("provider", "cannot be changed; it is %s", receiver.Provider.ID)
		}
		if err := body.merge(q, receiver, &problems); err != nil {
			return nil, err
		}
		settings := receiver.Provider.merge(receiver, stored, body.Settings.Value, r.Org.Features, &problems)
		return settings, problems.Err()
	})
	return s.viewUnless(r, receiver, settings, err)
}
