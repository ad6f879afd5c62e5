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

// Service has the operations on receivers, one transaction each.
type Service struct {
	db          *db.DB
	key         seal.Key
	public      core.PublicURL
	clock       core.Clock
	connections Connections
	client      *http.Client // for OAuth endpoints
	refreshing  singleflight.Group
	observers   []func(q *db.Q, c Change) error
}

// New returns a Service. Settings are encrypted with the key.
func New(d *db.DB, key seal.Key, public core.PublicURL, clock core.Clock, connections Connections) *Service {
	return &Service{db: d, key: key, public: public, clock: clock, connections: connections, client: &http.Client{Timeout: connectTimeout}}
}

// A Change is what a transaction does to a receiver.
type Change struct {
	Before *Receiver // nil: it is new
	After  *Receiver // nil: it is deleted
	// Settings says that the settings changed, too.
	Settings bool
}

// OnChange registers fn to be called in each transaction that adds, changes or deletes a receiver, except by
// MarkBroken; an error rolls it back. Call it before the first change.
func (s *Service) OnChange(fn func(q *db.Q, c Change) error) { s.observers = append(s.observers, fn) }

func (s *Service) changed(q *db.Q, c Change) error {
	for _, observe := range s.observers {
		if err := observe(q, c); err != nil {
			return err
		}
	}
	return nil
}

// Topic is the bus topic of changes to the receivers of an organization.
func Topic(organizationID string) string { return "notification-services:" + organizationID }

// Settings returns the decrypted settings of a receiver that are available with these features.
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

// sealContext binds encrypted settings to their receiver.
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

// create adds a receiver, unless the organization has reached the limit. fill completes it and returns its settings.
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
		if err := save(q, r, nil, settings); err != nil {
			return err
		}
		return s.changed(q, Change{After: r, Settings: true})
	})
	return settings, err
}

// change locks a receiver, applies a change to it and its settings, and saves it if anything changed.
func (s *Service) change(ctx context.Context, organizationID, id string, change func(q *db.Q, r *Receiver, settings Settings) (Settings, error)) (*Receiver, Settings, error) {
	return s.update(ctx, organizationID, id, change, s.changed)
}

// rewrite is change without observers, for what the server stores about its own use of the credentials.
func (s *Service) rewrite(ctx context.Context, organizationID, id string, change func(q *db.Q, r *Receiver, settings Settings) (Settings, error)) (*Receiver, Settings, error) {
	return s.update(ctx, organizationID, id, change, func(*db.Q, Change) error { return nil })
}

func (s *Service) update(ctx context.Context, organizationID, id string, change func(q *db.Q, r *Receiver, settings Settings) (Settings, error), observe func(*db.Q, Change) error) (r *Receiver, settings Settings, err error) {
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
		if err := save(q, r, stored, settings); err != nil {
			return err
		}
		return observe(q, Change{Before: &before, After: r, Settings: !same})
	})
	return r, settings, err
}

// Enable starts notifications to a receiver and clears its disabled and broken state.
func (s *Service) Enable(ctx context.Context, organizationID, id string) (*Receiver, Settings, error) {
	return s.change(ctx, organizationID, id, func(_ *db.Q, r *Receiver, settings Settings) (Settings, error) {
		r.enable()
		return settings, nil
	})
}

// Disable stops notifications to a receiver.
func (s *Service) Disable(ctx context.Context, organizationID, id string) (*Receiver, Settings, error) {
	return s.change(ctx, organizationID, id, func(_ *db.Q, r *Receiver, settings Settings) (Settings, error) {
		r.Disabled = true
		return settings, nil
	})
}

// MarkBroken stops notifications to a receiver until it is enabled again. The reason is shown to users. A broken receiver
// keeps its first reason. A receiver that does not exist is not an error.
func MarkBroken(q *db.Q, organizationID, id, reason string, now time.Time) error {
	r, err := lock(q, organizationID, id)
	if core.KindOf(err) == core.NotFound || err == nil && !r.BrokenAt.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	r.BrokenAt, r.BrokenReason = now, core.Cut(reason, maxBroken)
	return save(q, r, nil, nil)
}

// Delete revokes the credentials of a connected receiver and deletes it. If they cannot be revoked, the receiver stays.
func (s *Service) Delete(ctx context.Context, r *Receiver) error {
	if err := s.revoke(ctx, r); err != nil {
		return err
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := remove(q, r); err != nil {
			return err
		}
		return s.changed(q, Change{Before: r})
	})
}
