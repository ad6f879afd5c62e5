package notifications

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// A Draft holds the fields of a request to create or update a receiver. Fields that are nil were not sent.
type Draft struct {
	Description *string
	Branches    *string
	Scope       *Scope
	ScopeIDs    *[]string
	States      map[string]json.RawMessage // build states by API name
	Settings    map[string]json.RawMessage // null: the default
	// refuse adds further problems. now is the current view of the receiver, nil for a new one.
	refuse func(now *notificationServiceView, problems *core.Problems)
}

// Create adds a receiver of a provider.
func (s *Service) Create(ctx context.Context, org *identity.Organization, by identity.User, provider string, d Draft) (*Receiver, Settings, error) {
	var wrong core.Problems
	r := &Receiver{
		ID:             core.NewID(),
		OrganizationID: org.ID,
		Provider:       checkProvider(org, provider, &wrong),
		Scope:          All,
		ScopeIDs:       []string{},
		CreatedBy:      &by,
		CreatedAt:      s.clock(),
	}
	settings, err := s.create(ctx, r, func(q *db.Q, r *Receiver) (settings Settings, err error) {
		problems := slices.Clone(wrong)
		if err := d.merge(q, r, nil, &problems); err != nil {
			return nil, err
		}
		if r.Provider != nil {
			settings = r.Provider.create(d.Settings, org.Features, &problems)
		}
		return settings, problems.Err()
	})
	return r, settings, err
}

// Update changes the fields of a receiver that the draft has.
func (s *Service) Update(ctx context.Context, org *identity.Organization, id string, d Draft) (*Receiver, Settings, error) {
	return s.change(ctx, org.ID, id, func(q *db.Q, r *Receiver, stored Settings) (Settings, error) {
		var problems core.Problems
		now := s.view(org, r, stored)
		if err := d.merge(q, r, &now, &problems); err != nil {
			return nil, err
		}
		settings := r.Provider.merge(r, stored, d.Settings, org.Features, &problems)
		return settings, problems.Err()
	})
}

// checkProvider returns the provider for a new receiver, or adds a problem and returns nil.
func checkProvider(org *identity.Organization, id string, problems *core.Problems) *Provider {
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

// merge applies the draft to a receiver, except for its settings.
func (d *Draft) merge(q *db.Q, r *Receiver, now *notificationServiceView, problems *core.Problems) error {
	if d.refuse != nil {
		d.refuse(now, problems)
	}
	core.SetGiven(&r.Description, d.Description)
	if d.Branches != nil {
		r.Branches = core.BranchFilter(*d.Branches)
	}
	r.check(problems)
	r.States.merge(d.States, problems)
	return r.setScope(q, d.Scope, d.ScopeIDs, problems)
}

// merge sets the states that were sent.
func (b *BuildStates) merge(sent map[string]json.RawMessage, problems *core.Problems) {
	switches := b.switches()
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		on, value := switches[name], string(sent[name])
		switch {
		case on == nil && unknown < maxUnknown:
			unknown++
			problems.Add("build_states."+core.Cut(name, 100), "is not a known field")
		case on == nil:
		case value == "true" || value == "false":
			*on = value == "true"
		default:
			problems.Add("build_states."+name, "must be true or false")
		}
	}
}
