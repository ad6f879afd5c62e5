package hooks_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

// exec changes the database behind the server's back.
func (w *world) exec(statement string) {
	w.t.Helper()
	err := w.DB.Write(w.t.Context(), func(q *db.Q) error {
		_, err := q.Exec(statement)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// receive stores a push of main without processing it.
func (w *world) receive(n int) string {
	w.t.Helper()
	body := push("main", n)
	return w.As(w.t, "").With("X-GitHub-Event", "push").With("X-GitHub-Delivery", fmt.Sprint("main-", n)).
		With("X-Hub-Signature-256", "sha256="+signature(w.secret, body)).Post(w.url, body).Want(http.StatusAccepted).String("id")
}

func TestProcess_GivesUpAfterTwelveAttempts(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first, second := w.receive(1), w.receive(2)
		w.exec(`ALTER TABLE builds RENAME TO builds_gone`)
		for attempt := 1; attempt <= 12; attempt++ {
			_ = w.RunDue(t.Context()) // fails, as every task that reads builds
			w.Clock.Advance(time.Hour)
			state := "pending"
			if attempt == 12 {
				state = "failed"
			}
			servertest.WantAt(t, w.ada.Get(deliveries+"/"+first), fields{"state": state, "attempts": float64(attempt)})
		}
		servertest.WantAt(t, w.ada.Get(deliveries+"/"+first), fields{"reason": "the server could not process it; its log has the reason"})
		servertest.WantAt(t, w.ada.Get(deliveries+"/"+second), fields{"state": "pending"})

		w.exec(`ALTER TABLE builds_gone RENAME TO builds`)
		w.runDue()
		servertest.WantAt(t, w.ada.Get(deliveries+"/"+second), fields{"state": "built"})
		w.wantBuilds(1)
		w.ada.Post(deliveries+"/"+first+"/redeliver", nil).Want(http.StatusCreated)
		w.runDue()
		w.wantBuilds(2)
	})
}

func TestDeliveries_AreRemovedAfterThirtyDays(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const day = 24 * time.Hour
		old := w.github("push", push("main", 1)).String("id")
		w.Clock.Advance(day)
		newer := w.github("push", push("main", 2)).String("id")
		w.Clock.Advance(29*day - time.Minute)
		w.runDue()
		w.ada.Get(deliveries + "/" + old).Want(http.StatusOK)
		w.Clock.Advance(2 * time.Hour)
		w.runDue()
		w.ada.Get(deliveries + "/" + old).Want(http.StatusNotFound)
		w.ada.Get(deliveries + "/" + newer).Want(http.StatusOK)
		w.wantBuilds(2)

		w.github("push", push("main", 1)) // what was removed is not built again
		w.wantBuilds(2)
	})
}
