package notifications

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// serviceFields are the body fields of both creating and updating a notification service.
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

func (s *Service) postReceiver(r *route.Request, body notificationServiceCreate) (notificationServiceView, error) {
	receiver, settings, err := s.Create(r.Context(), r.Org, r.Caller.User, body.Provider.Value, body.draft())
	return s.viewUnless(r, receiver, settings, err)
}

func (s *Service) patchReceiver(r *route.Request, receiver *Receiver, body notificationServiceUpdate) (notificationServiceView, error) {
	d := body.draft()
	refuse := d.refuse
	d.refuse = func(now *notificationServiceView, problems *core.Problems) {
		refuse(now, problems)
		if provider := string(body.Provider.Value); body.Provider.Set && provider != now.Provider.ID {
			problems.Add("provider", "cannot be changed; it is %s", now.Provider.ID)
		}
	}
	receiver, settings, err := s.Update(r.Context(), r.Org, receiver.ID, d)
	return s.viewUnless(r, receiver, settings, err)
}

// draft returns the fields of the body. Null clears texts and scope_uuids; build_states and settings cannot be null.
func (f *serviceFields) draft() Draft {
	return Draft{
		Description: given(f.Description),
		Branches:    given(f.Branches),
		Scope:       given(f.Scope),
		ScopeIDs:    given(f.ScopeUUIDs),
		States:      f.BuildStates.Value,
		Settings:    f.Settings.Value,
		refuse: func(now *notificationServiceView, problems *core.Problems) {
			f.checkReadOnly(now, problems)
			for name, null := range map[string]bool{"build_states": f.BuildStates.Null, "settings": f.Settings.Null} {
				if null {
					problems.Add(name, "must be an object, not null")
				}
			}
		},
	}
}

func given[T any](o route.Opt[T]) *T {
	if !o.Set {
		return nil
	}
	return &o.Value
}

// checkReadOnly adds problems with read-only fields whose sent value differs from the current one.
func (f *serviceFields) checkReadOnly(now *notificationServiceView, problems *core.Problems) {
	sent := map[string]route.Opt[json.RawMessage]{
		"id": f.ID, "graphql_id": f.GraphQLID, "url": f.URL, "enabled": f.Enabled, "broken": f.Broken,
		"created_at": f.CreatedAt, "created_by": f.CreatedBy,
	}
	maps.DeleteFunc(sent, func(_ string, field route.Opt[json.RawMessage]) bool { return !field.Set })
	if len(sent) == 0 {
		return
	}
	shown := asShown(now)
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		current, ok := shown[name]
		switch {
		case ok && sameJSON(sent[name].Value, current):
		case name == "enabled":
			problems.Add(name, "is read-only; use PUT …/enable or PUT …/disable")
		default:
			problems.Add(name, "is read-only")
		}
	}
}

// asShown returns the fields of a view as JSON; nil has none.
func asShown(v *notificationServiceView) (fields map[string]json.RawMessage) {
	if v != nil {
		_ = json.Unmarshal(canonical(v), &fields)
	}
	return fields
}

// sameJSON reports whether two JSON texts have equal values; an empty text is null.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if len(a) > 0 && json.Unmarshal(a, &x) != nil || len(b) > 0 && json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}

// providerName is a provider id, sent as a string or as the object of a response.
type providerName string

// JSONSchema describes both forms.
func (providerName) JSONSchema() map[string]any {
	text := map[string]any{"type": "string"}
	return map[string]any{"anyOf": []any{
		text,
		map[string]any{"type": "object", "properties": map[string]any{"id": text, "name": text}},
	}}
}

// UnmarshalJSON reads both forms.
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

// JSONSchema describes the states.
func (statesBody) JSONSchema() map[string]any {
	properties := make(map[string]any)
	for name := range new(BuildStates).switches() {
		properties[name] = map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": "object", "properties": properties}
}

// settingsBody is the settings object of a request.
type settingsBody map[string]json.RawMessage

// JSONSchema describes the settings of each provider.
func (settingsBody) JSONSchema() map[string]any {
	var all []any
	for _, p := range providers {
		properties := make(map[string]any)
		for _, setting := range p.Settings {
			if setting.Managed {
				continue
			}
			schema := setting.Kind.schema()
			schema["description"] = strings.TrimSpace(setting.Doc)
			properties[setting.Name] = schema
		}
		all = append(all, map[string]any{"type": "object", "title": p.ID, "properties": properties})
	}
	return map[string]any{"anyOf": all}
}
