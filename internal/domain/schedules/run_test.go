package schedules_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

func TestRun_CreatesTheBuildOfASchedule(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		path := w.create(map[string]any{"cronline": "0 9 * * *", "message": "Nightly", "env": map[string]any{"FULL": "yes"}})
		w.runDue()
		w.wantBuilds()
		at := w.advanceTo(9, 0)
		w.Clock.Advance(3 * time.Second)
		w.runDue()
		w.runDue()
		w.wantBuilds(at)
		servertest.WantAt(t, w.ada.Get(hello+"/builds/1"), map[string]any{
			"source": "schedule", "branch": "main", "commit": "HEAD", "message": "Nightly", "env": map[string]any{"FULL": "yes"},
			"creator.name": "Ada", "author.name": "Ada", "scheduled_at": text(at), "created_at": text(at.Add(3 * time.Second)),
		})
		servertest.WantAt(t, w.ada.Get(path), map[string]any{"next_build_at": text(at.Add(24 * time.Hour)), "failed_at": nil})
		at2 := w.advanceTo(9, 0)
		w.runDue()
		w.wantBuilds(at2, at)
	})
}

func TestRun_FollowsChangesOfTheSchedule(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		path := w.create(map[string]any{"cronline": "0 9 * * *"})
		w.ada.Patch(path, map[string]any{"cronline": "0 10 * * *"}).Want(http.StatusOK)
		w.advanceTo(9, 0)
		w.runDue()
		w.wantBuilds()
		at := w.advanceTo(10, 0)
		w.runDue()
		w.wantBuilds(at)
		w.ada.Patch(path, map[string]any{"enabled": false}).Want(http.StatusOK)
		w.advanceTo(10, 0)
		w.runDue()
		w.wantBuilds(at)
	})
}

// Each missed time of a short interruption gets a build; after a longer one only the last missed time does, and none
// when it is too old.
func TestRun_CatchesUpAfterDowntime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		frequent := w.create(map[string]any{"cronline": "* * * * *"})
		at := w.advanceTo(8, 3)
		w.runDue()
		w.wantBuilds(at, at.Add(-time.Minute), at.Add(-2*time.Minute))
		last := w.advanceTo(10, 30)
		w.runDue()
		w.wantBuilds(last, at, at.Add(-time.Minute), at.Add(-2*time.Minute))
		w.ada.Delete(frequent).Want(http.StatusNoContent)

		daily := w.create(map[string]any{"cronline": "0 11 * * *"})
		eleven := w.advanceTo(11, 0)
		w.advanceTo(22, 59)
		w.runDue()
		w.wantBuilds(eleven, last, at, at.Add(-time.Minute), at.Add(-2*time.Minute))
		w.advanceTo(11, 0)
		w.advanceTo(23, 1)
		w.runDue()
		servertest.WantEqual(t, "builds", len(w.builds()), 5)
		servertest.WantAt(t, w.ada.Get(daily), map[string]any{"next_build_at": text(eleven.Add(48 * time.Hour)), "failed_at": nil})
	})
}

func TestRun_RecordsFailuresAndDisablesAfterTen(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		log := acme + "/services/" + w.ada.Post(acme+"/services", map[string]any{"provider": "event_log_api", "settings": map[string]any{"events": []string{"schedule.disabled"}}}).Want(http.StatusCreated).String("id") + "/events"
		path := w.create(map[string]any{"cronline": "* * * * *", "label": "Often"})
		w.ada.Patch(hello, map[string]any{"branch_configuration": "release/*"}).Want(http.StatusOK)
		for range 9 {
			w.Clock.Advance(time.Minute)
			w.runDue()
		}
		failed := w.ada.Get(path)
		servertest.WantAt(t, failed, map[string]any{"enabled": true, "failed_at": text(w.Clock.Now()), "next_build_at": text(w.Clock.Now().Add(time.Minute))})
		if reason := failed.String("failed_message"); !strings.Contains(reason, `The branch "main" is not built`) {
			t.Errorf("failed_message is %q", reason)
		}
		w.ada.Patch(hello, map[string]any{"branch_configuration": nil}).Want(http.StatusOK)
		w.Clock.Advance(time.Minute)
		w.runDue()
		servertest.WantAt(t, w.ada.Get(path), map[string]any{"failed_at": nil, "failed_message": nil}) // and the count starts again
		servertest.WantEqual(t, "builds", len(w.builds()), 1)

		w.ada.Patch(hello, map[string]any{"branch_configuration": "release/*"}).Want(http.StatusOK)
		for range 12 {
			w.Clock.Advance(time.Minute)
			w.runDue()
		}
		disabled := w.ada.Get(path)
		servertest.WantAt(t, disabled, map[string]any{"enabled": false, "next_build_at": nil, "failed_at": text(w.Clock.Now().Add(-2 * time.Minute))})
		events := w.ada.Get(log).Want(http.StatusOK)
		servertest.WantEqual(t, "events", events.Len("items"), 1)
		servertest.WantAt(t, events, map[string]any{
			"items.0.event": "schedule.disabled", "items.0.payload.pipeline.slug": "hello",
			"items.0.payload.schedule.id": disabled.String("id"), "items.0.payload.schedule.label": "Often", "items.0.payload.schedule.cronline": "* * * * *",
			"items.0.payload.schedule.failed_message": disabled.String("failed_message"), "items.0.payload.schedule.failed_at": disabled.String("failed_at"),
		})
		servertest.WantAt(t, w.ada.Put(path, map[string]any{"enabled": true}).Want(http.StatusOK), map[string]any{
			"enabled": true, "failed_at": nil, "failed_message": nil, "next_build_at": text(w.Clock.Now().Add(time.Minute)),
		})
	})
}

func TestRun_SkipsArchivedPipelinesAndSuspendedOrganizations(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		path := w.create(map[string]any{"cronline": "0 * * * *"})
		w.ada.Post(hello+"/archive", nil).Want(http.StatusOK)
		servertest.WantAt(t, w.ada.Get(path), map[string]any{"next_build_at": nil, "enabled": true})
		for _, r := range []*servertest.Response{w.ada.Post(schedules, map[string]any{"cronline": "@daily"}), w.ada.Put(path, map[string]any{"label": "x"}), w.ada.Delete(path)} {
			r.WantMessage(http.StatusUnprocessableEntity, "This pipeline is archived, so it cannot be changed; unarchive it first")
		}
		w.advanceTo(9, 0)
		w.runDue()
		w.ada.Post(hello+"/unarchive", nil).Want(http.StatusOK)
		w.Apply("organizations: [{slug: acme, suspended: true}]")
		w.advanceTo(10, 0)
		w.runDue()
		w.Apply("organizations: [{slug: acme, suspended: false}]")
		w.wantBuilds()
		at := w.advanceTo(11, 0)
		w.runDue()
		w.wantBuilds(at)
		servertest.WantAt(t, w.ada.Get(path), map[string]any{"failed_at": nil})
	})
}

func TestRun_EndsWithThePipeline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.advanceTo(8, 0)
		w.create(map[string]any{"cronline": "0 * * * *"})
		w.ada.Delete(hello).Want(http.StatusNoContent)
		w.advanceTo(9, 0)
		w.runDue()
		w.runDue()
	})
}

// Two replicas run a schedule of every minute for an hour. A replica that was killed leaves tasks behind that it has
// leased; others take them when the lease expires.
func TestReplicas_CreateEachRunOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		start := w.advanceTo(8, 0)
		w.create(map[string]any{"cronline": "* * * * *"})
		replicas := []*servertest.Server{w.Server, w.Replica(t)}
		for minute := 1; minute <= 60; minute++ {
			w.Clock.Advance(time.Minute)
			if minute == 20 || minute == 40 {
				w.killHolder()
				continue
			}
			var both sync.WaitGroup
			for _, r := range replicas {
				both.Go(func() {
					if err := r.RunDue(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
			if minute == 45 {
				replicas = replicas[1:]
			}
		}
		var want []time.Time
		for minute := 60; minute > 0; minute-- {
			want = append(want, start.Add(time.Duration(minute)*time.Minute))
		}
		w.wantBuilds(want...)
	})
}

// killHolder makes the due task look like one that a replica had claimed before it was killed.
func (w *world) killHolder() {
	w.t.Helper()
	err := w.DB.Write(w.t.Context(), func(q *db.Q) error {
		n, err := q.Exec(`UPDATE tasks SET lease = 'killed', run_at = $1, attempts = 1 WHERE kind = 'schedule-run' AND run_at <= $2`,
			db.Micros(w.Clock.Now().Add(75*time.Second)), db.Micros(w.Clock.Now()))
		if err == nil && n != 1 {
			w.t.Errorf("%d tasks were due", n)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
