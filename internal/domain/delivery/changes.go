package delivery

import (
	"time"

	"stackyard/internal/domain/events"
	"stackyard/internal/domain/notifications"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// receiverChanged keeps the events that are recorded in line with what receivers want, and pings webhooks that are new
// or have other settings.
func (s *Service) receiverChanged(q *db.Q, c notifications.Change) error {
	r := c.After
	if r == nil {
		r = c.Before
	}
	if err := s.updateWanted(q, r.OrganizationID); err != nil {
		return err
	}
	now := s.Clock()
	if c.After == nil || !c.After.Enabled() {
		// The task removes or gives up what is pending.
		return tasks.Add(q, sendAt(r.OrganizationID, r.ID, now))
	}
	if c.Before != nil && (c.Settings || !c.Before.Enabled()) {
		if err := s.startOver(q, r, now); err != nil {
			return err
		}
	}
	provider := providers[r.Provider.ID]
	if provider == nil || !provider.Pings || !c.Settings {
		return nil
	}
	return s.enqueue(q, []*Delivery{newDelivery(r.OrganizationID, r.ID, events.Event{Name: ping}, now)})
}

// startOver has everything that is pending sent now: what made it fail may be gone.
func (s *Service) startOver(q *db.Q, r *notifications.Receiver, now time.Time) error {
	if err := saveFailures(q, r.ID, failures{}); err != nil {
		return err
	}
	if err := retryNow(q, r.ID); err != nil {
		return err
	}
	return tasks.Add(q, sendAt(r.OrganizationID, r.ID, now))
}

// updateWanted says which events of an organization its receivers want.
func (s *Service) updateWanted(q *db.Q, orgID string) error {
	// Whoever changes another receiver waits, and then sees this change.
	if err := q.LockName("notification services of " + orgID); err != nil {
		return err
	}
	receivers, err := s.enabled(q, orgID)
	if err != nil {
		return err
	}
	var names events.Names
	for _, r := range receivers {
		names |= r.provider.Names(r.Receiver, r.settings)
	}
	return events.SetWanted(q, consumer, orgID, names)
}
