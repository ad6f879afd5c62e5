package delivery_test

import (
	"testing"
	"time"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/db"
)

// An organization that keeps events and deliveries for some days loses the older ones, and no newer ones.
func TestRetention_RemovesOldEventsAndDeliveries(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.webhook("build.scheduled")
		w.build(nil)
		w.runDue()
		w.Clock.Advance(30 * time.Hour)
		w.runDue()
		before := w.deliveries(id).Len("items")
		if n := w.scheduled(); n != 1 || before < 2 {
			t.Fatalf("%d events and %d deliveries, want 1, and the ping and another", n, before)
		}
		w.Apply("organizations: [{slug: acme, limits: {event_retention_days: 2, delivery_retention_days: 2}}]")
		w.Clock.Advance(20 * time.Hour) // 50 hours after the first
		w.build(nil)
		w.build(nil)
		w.runDue()
		if events, deliveries := w.scheduled(), w.deliveries(id).Len("items"); events != 2 || deliveries != 2 {
			t.Errorf("%d events and %d deliveries, want the 2 new ones", events, deliveries)
		}
	})
}

// scheduled returns how many events of new builds there are.
func (w *world) scheduled() (n int) {
	w.t.Helper()
	err := w.DB.Read(w.t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT COUNT(*) FROM events WHERE name = $1`, events.BuildScheduled).Scan(&n)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}
