package notifications

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"golang.org/x/sync/singleflight"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// Service is what can be done to receivers, each in one transaction.
type Service struct {
	db          *db.DB
	key         seal.Key
	public      core.PublicURL
	clock       core.Clock
	connections Connections
	client      *http.Client // for providers that people connect
	refreshing  singleflight.Group
}

// New returns the service of the receivers in a database. Settings are sealed under the key.
func New(d *db.DB, key seal.Key, public core.PublicURL, clock core.Clock, connections Connections) *Service {
	return &Service{db: d, key: key, public: public, clock: clock, connections: connections, client: &http.Client{Timeout: connectTimeout}}
}

// Topic is what the bus calls a change of the receivers of an organization.
func Topic(organizationID string) string { return "notification-services:" + organizationID }

// Settings returns the settings of a receiver in the clear, as far as an organization with these features has them.
func (s *Service) Settings(r *Receiver, f identity.Features) (Settings, error) {
	settings, err := s.open(r)
	return settings.without(r.Provider, f), err
}

func (s *Service) open(r *Receiver) (settings Settings, err error) {
	text, err := s.key.Open(r.sealed, sealContext(r))
	if err != nil {
		return nil, fmt.Errorf("read the settings of notification service %s: %w", r.ID, err)
	}
	return settings, json.Unmarshal(text, &settings)
}

func (s *Service) seal(r *Receiver, settings Settings) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	r.sealed, err = s.key.Seal(text, sealContext(r))
	return err
}

// sealContext binds sealed settings to their receiver.
func sealContext(r *Receiver) string { return "notification_service:" + r.ID }

// Receiver returns a receiver of an organization, or a NotFound error.
func (s *Service) Receiver(ctx context.Context, organizationID, id string) (r *Receiver, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		if r, err = byID(q, organizationID, id); err != nil {
			return err
		}
		return dropDeleted(q, organizationID, []*Receiver{r})
	})
	return r, err
}

// Page returns a page of an organization's receivers, oldest first, and how many there are.
func (s *Service) Page(ctx context.Context, organizationID string, page route.Page) (list []*Receiver, total int, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		if list, err = listPage(q, organizationID, page.Size, page.Offset()); err != nil {
			return err
		}
		total, err = count(q, organizationID)
		return err
	})
	return list, total, err
}

// create adds a receiver, unless the organization has too many. fill gives it everything that a request says about it
// and returns its settings.
func (s *Service) create(ctx context.Context, r *Receiver, fill func(q *db.Q, r *Receiver) (Settings, error)) (settings Settings, err error) {
	begun := *r
	err = s.db.Write(ctx, func(q *db.Q) (err error) {
		*r = begun
		if err := q.LockName("notification services of " + r.OrganizationID); err != nil {
			return err
		}
		if settings, err = fill(q, r); err != nil {
			return err
		}
		n, err := count(q, r.OrganizationID)
		if err != nil {
			return err
		}
		if n >= maxReceivers {
			return core.Errorf(core.Unprocessable, "The organization has %d notification services, which is as many as it can have; delete one first", n)
		}
		if err := s.seal(r, settings); err != nil {
			return err
		}
		return save(q, r)
	})
	return settings, err
}

// change changes a receiver and its settings. Nobody else changes them meanwhile. What stays as it was is not written.
func (s *Service) change(ctx context.Context, organizationID, id string, change func(q *db.Q, r *Receiver, settings Settings) (Settings, error)) (r *Receiver, settings Settings, err error) {
	err = s.db.Write(ctx, func(q *db.Q) (err error) {
		if r, err = lock(q, organizationID, id); err != nil {
			return err
		}
		if err := dropDeleted(q, organizationID, []*Receiver{r}); err != nil {
			return err
		}
		before := *r
		stored, err := s.open(r)
		if err != nil {
			return err
		}
		if settings, err = change(q, r, stored); err != nil {
			return err
		}
		same := settings.equal(stored)
		if same && reflect.DeepEqual(before, *r) {
			return nil
		}
		if !same {
			if err := s.seal(r, settings); err != nil {
				return err
			}
		}
		return save(q, r)
	})
	return r, settings, err
}

// Enable has notifications sent to a receiver again, whatever stopped them.
func (s *Service) Enable(ctx context.Context, organizationID, id string) (*Receiver, Settings, error) {
	return s.change(ctx, organizationID, id, func(_ *db.Q, r *Receiver, settings Settings) (Settings, error) {
		r.enable()
		return settings, nil
	})
}

// Disable stops notifications to a receiver until it is enabled.
func (s *Service) Disable(ctx context.Context, organizationID, id string) (*Receiver, Settings, error) {
	return s.change(ctx, organizationID, id, func(_ *db.Q, r *Receiver, settings Settings) (Settings, error) {
		r.Disabled = true
		return settings, nil
	})
}

// MarkBroken stops notifications to a receiver that has failed for long, until somebody enables it again. The reason is
// for people. A receiver that is broken already keeps its first reason, and one that is gone is no error.
func MarkBroken(q *db.Q, organizationID, id, reason string, now time.Time) error {
	r, err := lock(q, organizationID, id)
	if core.KindOf(err) == core.NotFound || err == nil && !r.BrokenAt.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	r.BrokenAt, r.BrokenReason = now, core.Cut(reason, maxBroken)
	return save(q, r)
}

// Delete deletes a receiver, unless its provider keeps the credentials that people gave it.
func (s *Service) Delete(ctx context.Context, r *Receiver) error {
	if err := s.revoke(ctx, r); err != nil {
		return err
	}
	return s.db.Write(ctx, func(q *db.Q) error { return remove(q, r) })
}
