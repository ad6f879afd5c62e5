package delivery

import (
	"context"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// Redeliver creates another delivery of the event of a delivery, or returns an Unprocessable error if the receiver is
// not enabled or the event is not kept any more.
func (s *Service) Redeliver(ctx context.Context, r *notifications.Receiver, d *Delivery) (*Delivery, error) {
	again := newDelivery(r.OrganizationID, r.ID, events.Event{Name: d.Event}, s.Clock())
	again.RedeliveryOf, again.Target = d.ID, d.Target
	return s.request(ctx, r, again, func(q *db.Q) error {
		if d.EventSeq == 0 {
			return nil
		}
		e, err := events.Get(q, d.EventSeq)
		if core.KindOf(err) == core.NotFound {
			return core.Errorf(core.Unprocessable, "The event of this delivery is not kept any more")
		}
		again.EventSeq, again.BuildID = e.Seq, e.BuildID
		return err
	})
}

// Tests reports whether receivers of a provider can be sent test messages.
func Tests(p *notifications.Provider) bool {
	provider := providers[p.ID]
	return provider != nil && provider.Tests
}

// Test creates the delivery of a test message, or returns an Unprocessable error if the receiver is not enabled or its
// provider has none. An e-mail goes to the person who asks for it.
func (s *Service) Test(ctx context.Context, r *notifications.Receiver, by identity.User) (*Delivery, error) {
	if !Tests(r.Provider) {
		return nil, core.Errorf(core.Unprocessable, "Services of the provider %s have no test message", r.Provider.ID)
	}
	d := newDelivery(r.OrganizationID, r.ID, events.Event{Name: ping}, s.Clock())
	if r.Provider.ID == "smtp" {
		d.Target = &Target{To: by.Email}
	}
	return s.request(ctx, r, d, func(*db.Q) error { return nil })
}

// request adds a delivery that a person asks for, and ends the rest of the receiver for one attempt. complete is called in the transaction, first.
func (s *Service) request(ctx context.Context, r *notifications.Receiver, d *Delivery, complete func(q *db.Q) error) (stored *Delivery, err error) {
	if !r.Enabled() {
		return nil, core.Errorf(core.Unprocessable, "The notification service is not enabled; enable it first")
	}
	err = s.DB.Write(ctx, func(q *db.Q) error {
		if err := complete(q); err != nil {
			return err
		}
		if err := endRest(q, r.ID, s.Clock()); err != nil {
			return err
		}
		if err := s.enqueue(q, []*Delivery{d}); err != nil {
			return err
		}
		stored, err = byID(q, r.ID, d.ID)
		return err
	})
	return stored, err
}
