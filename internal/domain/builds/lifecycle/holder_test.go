package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

const otherAgent = "0190c0de-0000-7000-8000-0000000000b2"

func TestHolder_AloneMovesItsJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: a, key: a}")
		w.Create(nil)
		ctx, id := t.Context(), w.Job(1, "a")
		w.WantNoError(w.Assign(id))
		moves := []func(holder string) error{
			func(holder string) error { return w.Service.Accept(ctx, w.OrgID, id, holder) },
			func(holder string) error { return w.Service.Start(ctx, w.OrgID, id, holder) },
			func(holder string) error { return w.Service.Promise(ctx, w.OrgID, id, holder, 2, "", true) },
			func(holder string) error { return w.Service.Finish(ctx, w.OrgID, id, holder, flow.Exit{Status: 2}, "") },
		}
		for i, move := range moves {
			if err := move(otherAgent); core.KindOf(err) != core.Unprocessable {
				t.Errorf("move %d by another agent: %v", i, err)
			}
			w.WantNoError(move(buildstest.SomeAgent))
			w.WantNoError(move(buildstest.SomeAgent)) // it missed the response
		}
		servertest.WantEqual(t, "states", w.States(1), "a failed")
		if err := w.Service.Promise(ctx, w.OrgID, id, buildstest.SomeAgent, 2, "", true); core.KindOf(err) != core.Unprocessable {
			t.Errorf("a promise of a job that has ended: %v", err)
		}
	})
}

func TestAssign_OffersManyJobsAtOnceAndLeavesOutWhatMoved(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: many, key: many, parallelism: 250}", "{command: canceled, key: canceled}", "wait", "{command: later, key: later}")
		build := w.Create(nil).String("id")
		ctx := t.Context()
		w.WantNoError(w.Service.CancelJob(ctx, w.OrgID, w.rowsOf(`SELECT id FROM jobs WHERE parallel_index IS NULL AND type = 'script' AND state = 'scheduled'`)[0]))
		var offers []flow.Offer
		for i, id := range w.rowsOf(`SELECT id FROM jobs ORDER BY position`) {
			offers = append(offers, flow.Offer{JobID: id, AgentID: fmt.Sprintf("agent-%03d", i)})
		}
		assigned, err := w.Service.Assign(ctx, w.OrgID, build, offers)
		w.WantNoError(err)
		servertest.WantEqual(t, "assigned", len(assigned), 250)
		held := w.rowsOf(`SELECT agent_id FROM jobs WHERE state = 'assigned' ORDER BY position`)
		for i, agent := range held {
			servertest.WantEqual(t, "holder", agent, offers[i].AgentID)
		}
		again, err := w.Service.Assign(ctx, w.OrgID, build, offers)
		w.WantNoError(err)
		servertest.WantEqual(t, "assigned twice", len(again), 0)
		w.wantRunnable()
	})
}

func TestObserve_HearsOfEveryMoveWithinItsTransaction(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var observed []string
		refuse := false
		w.Service.AddEffect(func(q *db.Q, b *builds.Build, moved []flow.JobChange) error {
			for _, m := range moved {
				var state string
				if err := q.QueryRow(`SELECT state FROM jobs WHERE id = $1`, m.Job.ID).Scan(&state); err != nil {
					return err
				}
				observed = append(observed, fmt.Sprintf("%s %s>%s", m.Job.Type, m.From, state))
			}
			if refuse {
				return core.Errorf(core.Unprocessable, "No")
			}
			return nil
		})
		// Builds are made by the server's own service, which has no observer.
		w.Steps("{command: a, key: a, concurrency: 1, concurrency_group: g}", "wait", "{command: b, key: b}")
		w.Create(nil)
		w.Create(nil)
		a := w.Job(1, "a")
		w.Start(a)
		refuse = true
		if err := w.Service.Finish(t.Context(), w.OrgID, a, "", flow.Exit{}, ""); core.KindOf(err) != core.Unprocessable {
			t.Errorf("the observer's error: %v", err)
		}
		refuse = false
		w.WantStates(1, "running", "a running, waiter waiting, b waiting")
		observed = observed[:3]
		w.End(a, 0)
		servertest.WantEqual(t, "observed", strings.Join(observed, ", "),
			"script scheduled>assigned, script assigned>accepted, script accepted>running, "+
				"script running>finished, waiter waiting>finished, script waiting>scheduled, script limited>scheduled")
	})
}
