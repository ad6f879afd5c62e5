package notifications

import (
	"bytes"
	"context"
	"maps"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// Connect creates a connected receiver with the settings that a provider returned. If the organization already has one
// for the same workspace, it gets the new credentials and is enabled instead.
func (s *Service) Connect(ctx context.Context, org *identity.Organization, by identity.User, p *Provider, given map[string]string) (*Receiver, error) {
	credentials, err := p.credentials(given)
	if err != nil {
		return nil, err
	}
	known, err := s.connectedTo(ctx, org, p, credentials)
	if err != nil {
		return nil, err
	}
	if known != nil {
		r, _, err := s.change(ctx, org.ID, known.ID, func(_ *db.Q, r *Receiver, settings Settings) (Settings, error) {
			r.enable()
			settings = maps.Clone(settings)
			maps.Copy(settings, credentials)
			return settings, nil
		})
		return r, err
	}
	r := &Receiver{
		ID:             core.NewID(),
		OrganizationID: org.ID,
		Provider:       p,
		Scope:          All,
		ScopeIDs:       []string{},
		States:         BuildStates{Failed: true, Fixed: true}, // as the form for a new one suggests
		Connected:      true,
		CreatedBy:      &by,
		CreatedAt:      s.clock(),
	}
	_, err = s.create(ctx, r, func(*db.Q, *Receiver) (Settings, error) {
		settings := maps.Clone(credentials)
		p.fill(settings)
		return settings, nil
	})
	return r, err
}

// credentials validates the settings that a provider returned.
func (p *Provider) credentials(given map[string]string) (Settings, error) {
	settings := Settings{}
	for name, value := range given {
		setting := p.setting(name)
		if setting == nil || value == "" {
			continue
		}
		read, broken := setting.Kind.read(canonical(value))
		if broken != "" {
			return nil, core.Errorf(core.Unprocessable, "The provider returned a %s that cannot be used: it %s", name, broken)
		}
		settings[name] = canonical(read)
	}
	var problems core.Problems
	p.checkRequired(settings, &problems)
	if p.setting("access_token") != nil && settings["access_token"] == nil || len(problems) > 0 {
		return nil, core.Errorf(core.Unprocessable, "The provider returned no credentials")
	}
	return settings, nil
}

// connectedTo returns the receiver that is connected to the same workspace, or nil.
func (s *Service) connectedTo(ctx context.Context, org *identity.Organization, p *Provider, settings Settings) (*Receiver, error) {
	const name = "workspace_id"
	if settings[name] == nil {
		return nil, nil
	}
	var connected []*Receiver
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		connected, err = connectedThrough(q, org.ID, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, r := range connected {
		stored, err := s.open(r)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(stored[name], settings[name]) {
			return r, nil
		}
	}
	return nil, nil
}
