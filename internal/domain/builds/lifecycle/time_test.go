package lifecycle_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// pass lets time pass, and does what is due then.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.Clock.Advance(d)
	w.ok(w.RunDue(w.t.Context()))
}

// wantTasks fails the test unless there are that many tasks of a kind.
func (w *world) wantTasks(kind string, want int) {
	w.t.Helper()
	var got int
	w.ok(w.DB.Read(w.t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT COUNT(*) FROM tasks WHERE kind = $1`, kind).Scan(&got)
	}))
	wantEqual(w.t, "tasks of kind "+kind, got, want)
}

// expireAfter changes when acme's scheduled jobs expire.
func (w *world) expireAfter(minutes int) {
	w.t.Helper()
	w.ada.Patch(acme+"/pipeline-settings", map[string]any{"scheduled_job_expiry_in_minutes": minutes}).Want(http.StatusOK)
}

const (
	grace  = 3 * time.Minute
	expiry = 30 * 24 * time.Hour
)

func TestTimeout_StopsAJobAndEndsItWhenItsAgentDoesNot(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: slow, timeout_in_minutes: 5}")
		w.create(nil)
		w.pass(time.Hour) // it counts from the start
		id := w.job(1, "slow")
		w.start(id)
		w.pass(5*time.Minute - time.Second)
		w.wantStates(1, "running", "slow running")
		w.pass(time.Second)
		w.wantStates(1, "running", "slow timing_out")
		w.pass(grace - time.Second)
		w.wantStates(1, "running", "slow timing_out")
		w.pass(time.Second)
		w.wantStates(1, "failed", "slow timed_out")
		wantAt(t, w.build(1), map[string]any{
			"jobs.0.exit_status": -1, "jobs.0.signal_reason": "cancel", "jobs.0.finished_at": w.now(),
			"jobs.0.detail": "Its agent did not stop it in time.",
		})
		w.wantTasks("job-deadline", 0)
	})
}

func TestTimeout_LeavesTheEndToAnAgentThatReportsIt(t *testing.T) {
	for status, want := range map[int]string{143: "slow timed_out", 0: "slow passed"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.steps("{command: slow, timeout_in_minutes: 5}")
				w.create(nil)
				id := w.job(1, "slow")
				w.start(id)
				w.pass(5 * time.Minute)
				w.end(id, status)
				wantEqual(t, "jobs", w.states(1), want)
				wantAt(t, w.build(1), map[string]any{"jobs.0.exit_status": status})
				w.wantTasks("job-deadline", 0)
			})
		})
	}
}

func TestTimeout_IsForgottenWhenTheJobEnds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: quick, timeout_in_minutes: 5}", "command: unbounded")
		w.create(nil)
		w.start(w.job(1, "quick"))
		w.start(w.job(1, "unbounded"))
		w.wantTasks("job-deadline", 1)
		w.end(w.job(1, "quick"), 0)
		w.wantTasks("job-deadline", 0)
		w.pass(24 * time.Hour)
		w.wantStates(1, "running", "quick passed, unbounded running")
	})
}

func TestTimeout_IsTriedAgainByTheRulesOfItsStep(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: slow, timeout_in_minutes: 5, retry: {automatic: {exit_status: -1, limit: 1}}}")
		w.create(nil)
		for range 2 {
			w.start(w.job(1, "slow"))
			w.pass(5 * time.Minute)
			w.pass(grace)
		}
		w.wantStates(1, "failed", "slow timed_out, slow timed_out")
	})
}

func TestCancel_EndsAlsoWhenNoAgentAnswers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: runs, timeout_in_minutes: 1}", "command: accepted")
		w.create(nil)
		w.start(w.job(1, "runs"))
		accepted := w.job(1, "accepted")
		w.ok(w.assign(accepted))
		w.ok(w.service.Accept(t.Context(), w.orgID, accepted, ""))
		w.Clock.Advance(time.Minute) // the timeout is due, but canceling came first
		w.ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.pass(grace - time.Second)
		w.wantStates(1, "canceling", "runs canceling, accepted canceling")
		w.pass(time.Second)
		w.wantStates(1, "canceled", "runs canceled, accepted canceled")
		w.wantTasks("job-deadline", 0)
	})
}

func TestExpiry_EndsJobsThatNoAgentStarts(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("command: started", "command: lonely")
		w.create(nil)
		w.start(w.job(1, "started"))
		w.pass(expiry - time.Second)
		w.wantStates(1, "running", "started running, lonely scheduled")
		w.pass(time.Second)
		w.wantStates(1, "failing", "started running, lonely expired")
		wantAt(t, w.build(1), map[string]any{"jobs.1.expired_at": w.now(), "jobs.1.finished_at": w.now()})
		w.end(w.job(1, "started"), 0)
		w.wantStates(1, "failed", "started passed, lonely expired")
		w.wantTasks("job-expiry", 0)
	})
}

func TestExpiry_CountsFromWhenAJobWasScheduled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("command: first", "wait", "command: second")
		w.create(nil)
		w.pass(20 * 24 * time.Hour)
		w.run(1, "first", 0)
		w.pass(expiry - time.Second)
		w.wantStates(1, "running", "first passed, waiter passed, second scheduled")
		w.pass(time.Second)
		w.wantStates(1, "failed", "first passed, waiter passed, second expired")
		w.ada.Put(acme+"/pipelines/hello/builds/1/jobs/"+w.job(1, "second")+"/retry", nil).Want(http.StatusOK)
		w.pass(expiry - time.Second)
		w.wantStates(1, "running", "first passed, waiter passed, second expired, second scheduled")
		w.pass(time.Second)
		w.wantStates(1, "failed", "first passed, waiter passed, second expired, second expired")
	})
}

func TestExpiry_GoesByTheSettingAlsoForJobsThatAreThere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.create(nil)
		w.expireAfter(60)
		w.pass(59 * time.Minute)
		w.expireAfter(90)
		w.pass(30 * time.Minute)
		w.wantStates(1, "scheduled", "echo hello scheduled")
		w.pass(time.Minute)
		w.wantStates(1, "failed", "echo hello expired")
		w.create(nil)
		w.pass(90 * time.Minute)
		w.wantStates(2, "failed", "echo hello expired")
	})
}

func TestExpiry_LetsOthersBeCanceledInTheSameStroke(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("command: first", "{command: second, cancel_on_build_failing: true}")
		w.create(nil)
		w.pass(expiry)
		w.wantStates(1, "failed", "first expired, second canceled")
	})
}

func TestExpiry_OfALargeBuildIsOneTaskDoneInPieces(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("{command: many, parallelism: 450}")
		w.create(nil)
		w.wantTasks("job-expiry", 1)
		w.pass(expiry)
		build := w.build(1)
		wantEqual(t, "state", build.String("state"), "failed")
		wantEqual(t, "expired jobs", build.String("job_state_counts.states.expired"), "450")
		w.wantTasks("job-expiry", 0)
	})
}

func TestOffer_GoesBackWhenTheAgentDoesNotAccept(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("command: a", "command: b")
		w.create(nil)
		ctx, a, b := t.Context(), w.job(1, "a"), w.job(1, "b")
		w.ok(w.assign(a))
		w.ok(w.assign(b))
		w.pass(29 * time.Second)
		w.ok(w.service.Accept(ctx, w.orgID, b, someAgent))
		offered := func() string {
			id, err := w.service.AssignedTo(ctx, w.orgID, someAgent)
			w.ok(err)
			return id
		}
		wantEqual(t, "assigned", offered(), a)
		w.pass(time.Second)
		w.wantStates(1, "scheduled", "a scheduled, b accepted")
		wantEqual(t, "assigned", offered(), "")
		if err := w.service.Accept(ctx, w.orgID, a, someAgent); core.KindOf(err) != core.Unprocessable {
			t.Errorf("a job that went back was accepted: %v", err)
		}
		w.wantTasks("job-deadline", 1)
	})
}

func TestAcceptedJob_EndsWhenItsAgentDoesNotStartIt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.steps("command: a")
		w.create(nil)
		w.ok(w.service.Acquire(t.Context(), w.orgID, w.job(1, "a"), someAgent))
		w.pass(5*time.Minute - time.Second)
		w.wantStates(1, "scheduled", "a accepted")
		w.pass(time.Second)
		w.wantStates(1, "failed", "a failed")
		wantAt(t, w.build(1), map[string]any{
			"jobs.0.exit_status": -1, "jobs.0.signal_reason": "agent_lost", "jobs.0.detail": "Its agent did not start it in time.",
		})
		w.wantTasks("job-deadline", 0)
	})
}
