package lifecycle_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/builds/buildstest"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// wantTasks fails the test unless there are that many tasks of a kind.
func (w *world) wantTasks(kind string, want int) {
	w.T.Helper()
	var got int
	w.WantNoError(w.DB.Read(w.T.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT COUNT(*) FROM tasks WHERE kind = $1`, kind).Scan(&got)
	}))
	servertest.WantEqual(w.T, "tasks of kind "+kind, got, want)
}

// wantDeadlines fails the test unless that many jobs have a deadline.
func (w *world) wantDeadlines(want int) {
	w.T.Helper()
	servertest.WantEqual(w.T, "deadlines", len(w.rowsOf(`SELECT id FROM jobs WHERE deadline_at IS NOT NULL`)), want)
}

// expireAfter changes when acme's scheduled jobs expire.
func (w *world) expireAfter(minutes int) {
	w.T.Helper()
	w.Ada.Patch(acme+"/pipeline-settings", map[string]any{"scheduled_job_expiry_in_minutes": minutes}).Want(http.StatusOK)
}

const (
	grace  = 3 * time.Minute
	expiry = 30 * 24 * time.Hour
)

func TestTimeout_StopsAJobAndEndsItWhenItsAgentDoesNot(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: slow, timeout_in_minutes: 5}")
		w.Create(nil)
		w.Pass(time.Hour) // it counts from the start
		id := w.Job(1, "slow")
		w.Start(id)
		w.Pass(5*time.Minute - time.Second)
		w.WantStates(1, "running", "slow running")
		w.Pass(time.Second)
		w.WantStates(1, "running", "slow timing_out")
		w.Pass(grace - time.Second)
		w.WantStates(1, "running", "slow timing_out")
		w.Pass(time.Second)
		w.WantStates(1, "failed", "slow timed_out")
		servertest.WantAt(t, w.Build(1), map[string]any{
			"jobs.0.exit_status": -1, "jobs.0.signal_reason": "cancel", "jobs.0.finished_at": w.Now(),
			"jobs.0.detail": "Its agent did not stop it in time.",
		})
		w.wantDeadlines(0)
	})
}

func TestTimeout_LeavesTheEndToAnAgentThatReportsIt(t *testing.T) {
	for status, want := range map[int]string{143: "slow timed_out", 0: "slow passed"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.Steps("{command: slow, timeout_in_minutes: 5}")
				w.Create(nil)
				id := w.Job(1, "slow")
				w.Start(id)
				w.Pass(5 * time.Minute)
				w.End(id, status)
				servertest.WantEqual(t, "jobs", w.States(1), want)
				servertest.WantAt(t, w.Build(1), map[string]any{"jobs.0.exit_status": status})
				w.wantDeadlines(0)
			})
		})
	}
}

func TestTimeout_IsForgottenWhenTheJobEnds(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: quick, timeout_in_minutes: 5}", "command: unbounded")
		w.Create(nil)
		w.Start(w.Job(1, "quick"))
		w.Start(w.Job(1, "unbounded"))
		w.wantDeadlines(1)
		w.End(w.Job(1, "quick"), 0)
		w.wantDeadlines(0)
		w.Pass(24 * time.Hour)
		w.WantStates(1, "running", "quick passed, unbounded running")
	})
}

func TestTimeout_IsTriedAgainByTheRulesOfItsStep(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: slow, timeout_in_minutes: 5, retry: {automatic: {exit_status: -1, limit: 1}}}")
		w.Create(nil)
		for range 2 {
			w.Start(w.Job(1, "slow"))
			w.Pass(5 * time.Minute)
			w.Pass(grace)
		}
		w.WantStates(1, "failed", "slow timed_out, slow timed_out")
	})
}

func TestCancel_EndsAlsoWhenNoAgentAnswers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: runs, timeout_in_minutes: 1}", "command: accepted")
		w.Create(nil)
		w.Start(w.Job(1, "runs"))
		accepted := w.Job(1, "accepted")
		w.WantNoError(w.Assign(accepted))
		w.WantNoError(w.Service.Accept(t.Context(), w.OrgID, accepted, ""))
		w.Clock.Advance(time.Minute) // the timeout is due, but canceling came first
		w.Ada.Put(hello+"/1/cancel", nil).Want(http.StatusOK)
		w.Pass(grace - time.Second)
		w.WantStates(1, "canceling", "runs canceling, accepted canceling")
		w.Pass(time.Second)
		w.WantStates(1, "canceled", "runs canceled, accepted canceled")
		w.wantDeadlines(0)
	})
}

func TestExpiry_EndsJobsThatNoAgentStarts(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("command: started", "command: lonely")
		w.Create(nil)
		w.Start(w.Job(1, "started"))
		w.Pass(expiry - time.Second)
		w.WantStates(1, "running", "started running, lonely scheduled")
		w.Pass(time.Second)
		w.WantStates(1, "failing", "started running, lonely expired")
		servertest.WantAt(t, w.Build(1), map[string]any{"jobs.1.expired_at": w.Now(), "jobs.1.finished_at": w.Now()})
		w.End(w.Job(1, "started"), 0)
		w.WantStates(1, "failed", "started passed, lonely expired")
		w.wantDeadlines(0)
	})
}

func TestExpiry_CountsFromWhenAJobWasScheduled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("command: first", "wait", "command: second")
		w.Create(nil)
		w.Pass(20 * 24 * time.Hour)
		w.Run(1, "first", 0)
		w.Pass(expiry - time.Second)
		w.WantStates(1, "running", "first passed, waiter passed, second scheduled")
		w.Pass(time.Second)
		w.WantStates(1, "failed", "first passed, waiter passed, second expired")
		w.Ada.Put(acme+"/pipelines/hello/builds/1/jobs/"+w.Job(1, "second")+"/retry", nil).Want(http.StatusOK)
		w.Pass(expiry - time.Second)
		w.WantStates(1, "running", "first passed, waiter passed, second expired, second scheduled")
		w.Pass(time.Second)
		w.WantStates(1, "failed", "first passed, waiter passed, second expired, second expired")
	})
}

func TestExpiry_GoesByTheSettingAlsoForJobsThatAreThere(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Create(nil)
		w.expireAfter(60)
		w.Pass(59 * time.Minute)
		w.expireAfter(90)
		w.Pass(30 * time.Minute)
		w.WantStates(1, "scheduled", "echo hello scheduled")
		w.Pass(time.Minute)
		w.WantStates(1, "failed", "echo hello expired")
		w.Create(nil)
		w.Pass(90 * time.Minute)
		w.WantStates(2, "failed", "echo hello expired")
	})
}

func TestExpiry_LetsOthersBeCanceledInTheSameStroke(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("command: first", "{command: second, cancel_on_build_failing: true}")
		w.Create(nil)
		w.Pass(expiry)
		w.WantStates(1, "failed", "first expired, second canceled")
	})
}

func TestExpiry_OfALargeBuildIsDoneInPieces(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("{command: many, parallelism: 450}")
		w.Create(nil)
		w.Pass(expiry)
		build := w.Build(1)
		servertest.WantEqual(t, "state", build.String("state"), "failed")
		servertest.WantEqual(t, "expired jobs", build.String("job_state_counts.states.expired"), "450")
		w.wantDeadlines(0)
	})
}

func TestOffer_GoesBackWhenTheAgentDoesNotAccept(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("command: a", "command: b")
		w.Create(nil)
		ctx, a, b := t.Context(), w.Job(1, "a"), w.Job(1, "b")
		w.WantNoError(w.Assign(a))
		w.WantNoError(w.Assign(b))
		w.Pass(29 * time.Second)
		w.WantNoError(w.Service.Accept(ctx, w.OrgID, b, buildstest.SomeAgent))
		offered := func() string {
			id, err := w.Service.AssignedTo(ctx, w.OrgID, buildstest.SomeAgent)
			w.WantNoError(err)
			return id
		}
		servertest.WantEqual(t, "assigned", offered(), a)
		w.Pass(time.Second)
		w.WantStates(1, "scheduled", "a scheduled, b accepted")
		servertest.WantEqual(t, "assigned", offered(), "")
		if err := w.Service.Accept(ctx, w.OrgID, a, buildstest.SomeAgent); core.KindOf(err) != core.Unprocessable {
			t.Errorf("a job that went back was accepted: %v", err)
		}
		w.wantDeadlines(2) // to be started, and to expire
	})
}

func TestAcceptedJob_EndsWhenItsAgentDoesNotStartIt(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Steps("command: a")
		w.Create(nil)
		w.WantNoError(w.Service.Acquire(t.Context(), w.OrgID, w.Job(1, "a"), buildstest.SomeAgent))
		w.Pass(5*time.Minute - time.Second)
		w.WantStates(1, "scheduled", "a accepted")
		w.Pass(time.Second)
		w.WantStates(1, "failed", "a failed")
		servertest.WantAt(t, w.Build(1), map[string]any{
			"jobs.0.exit_status": -1, "jobs.0.signal_reason": "agent_lost", "jobs.0.detail": "Its agent did not start it in time.",
		})
		w.wantDeadlines(0)
	})
}
