package stacks_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"stackyard/internal/app/server"
	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/core"
)

const clusterStacks = acme + "/clusters/" + servertest.AcmeClusterID + "/stacks"

func TestREST_ListsStacksWithStateQueueAndReservedJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(3)
		w.register("another").Want(http.StatusCreated)
		w.reserveFor(600, ids[0])
		w.reserveFor(300, ids[1])
		list := w.ada.Get(clusterStacks).Want(http.StatusOK)
		wantEqual(t, "stacks", list.Len(""), 2)
		for path, want := range map[string]any{
			"0.key": "another", "0.reserved_jobs_count": 0, "0.state": "connected",
			"1.key": "robot", "1.reserved_jobs_count": 2, "1.type": "custom", "1.cluster_queue_key": "__default__", "1.metadata": fields{"version": "1"},
		} {
			wantEqual(t, path, list.At(path), want)
		}
		path := clusterStacks + "/" + list.String("1.id")
		wantEqual(t, "url", list.String("1.url"), w.URL+path)
		one := w.ada.Get(path).Want(http.StatusOK)
		wantEqual(t, "key", one.At("key"), "robot")
		wantEqual(t, "reserved jobs", []any{one.At("reserved_jobs.0.id"), one.At("reserved_jobs.1.id"), one.Len("reserved_jobs")}, []any{ids[1], ids[0], 2})
		wantEqual(t, "until", one.At("reserved_jobs.0.reserved_until"), w.Clock.Now().Add(300*time.Second).Format("2006-01-02T15:04:05.000Z"))
		w.ada.Get(one.String("reserved_jobs.0.url")[len(w.URL):]).Want(http.StatusOK)

		w.due()
		w.Clock.Advance(7 * time.Minute)
		later := w.ada.Get(path).Want(http.StatusOK)
		wantEqual(t, "state of a silent stack", later.At("state"), "disconnected")
		wantEqual(t, "what is still reserved", later.At("reserved_jobs_count"), 1)
		w.state(ids[0])
		w.due()
		wantEqual(t, "state after a call", w.ada.Get(path).At("state"), "connected")

		w.ada.Get(clusterStacks+"/"+core.NewID()).WantMessage(http.StatusNotFound, "No stack found")
		w.ada.Get(clusterStacks+"/robot").WantMessage(http.StatusNotFound, "No stack found")
		w.As(t, servertest.Cy).Get("/v2/organizations/rival/clusters/" + servertest.AcmeClusterID + "/stacks").Want(http.StatusNotFound)
	})
}

func TestREST_RemovesAStackAndWhatItHasReserved(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		w.reserveFor(600, id)
		token := w.tokenOf(w.stack, id)
		path := clusterStacks + "/" + w.ada.Get(clusterStacks).Want(http.StatusOK).String("0.id")
		w.As(t, servertest.Bo).Delete(path).Want(http.StatusForbidden)
		w.ada.Delete(path).Want(http.StatusNoContent)
		w.ada.Delete(path).WantMessage(http.StatusNotFound, "No stack found")
		w.list("").WantMessage(http.StatusNotFound, "No stack found")
		w.AsAgent(t, token).Post("/v3/register", fields{}).Want(http.StatusUnauthorized)
		w.register("robot").Want(http.StatusCreated)
		wantEqual(t, "listed", listed(w.list("")), []string{id})
	})
}

func TestREST_ReleasesOneReservedJob(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(2)
		w.reserveFor(600, ids[0])
		w.reserveFor(600, ids[1])
		stack := clusterStacks + "/" + w.ada.Get(clusterStacks).Want(http.StatusOK).String("0.id")
		path, token := stack+"/reserved-jobs/", w.tokenOf(w.stack, ids[0])
		w.As(t, servertest.Bo).Delete(path + ids[0]).Want(http.StatusForbidden)
		w.ada.Delete(path + ids[0]).Want(http.StatusNoContent)
		w.ada.Delete(path+ids[0]).WantMessage(http.StatusNotFound, "The stack has not reserved this job")
		w.ada.Delete(path + core.NewID()).Want(http.StatusNotFound)
		w.AsAgent(t, token).Post("/v3/register", fields{}).Want(http.StatusUnauthorized)
		wantEqual(t, "reserved jobs", w.ada.Get(stack).Want(http.StatusOK).At("reserved_jobs_count"), 1)
		wantEqual(t, "state of the released job", w.state(ids[0]), "scheduled")
		wantEqual(t, "state of the other one", w.state(ids[1]), "reserved")
	})
}

// A member without access to a pipeline sees how many jobs are reserved, but not which.
func TestREST_HidesReservedJobsOfPipelinesThatTheCallerMayNotSee(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply(`organizations: [{slug: acme, features: {teams: true}}]`)
		id := w.schedule(1)[0]
		w.reserveFor(600, id)
		path := clusterStacks + "/" + w.ada.Get(clusterStacks).Want(http.StatusOK).String("0.id")
		wantEqual(t, "for an administrator", w.ada.Get(path).Want(http.StatusOK).Len("reserved_jobs"), 1)
		bo := w.As(t, servertest.Bo).Get(path).Want(http.StatusOK)
		wantEqual(t, "for a member without access", bo.Len("reserved_jobs"), 0)
		wantEqual(t, "count", bo.At("reserved_jobs_count"), 1)
	})
}

func TestStacks_ThatAreSilentDoNotCount(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Apply("organizations: [{slug: acme, limits: {stacks: 1}}]")
		w.register("second").WantMessage(http.StatusForbidden, "The organization has 1 active stacks, which is its limit; de-register one that is not needed")
		w.Clock.Advance(4 * time.Minute)
		w.list("").Want(http.StatusOK) // the stack is alive
		w.due()
		w.Clock.Advance(4 * time.Minute)
		w.register("second").Want(http.StatusForbidden)
		w.Clock.Advance(3 * time.Minute)
		w.register("second").Want(http.StatusCreated)
		w.register("robot").Want(http.StatusOK) // it is still registered
	})
}

func TestStacks_ThatAreSilentForADayAreDeregistered(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.register("alive").Want(http.StatusCreated)
		keys := func() (keys []string) {
			list := w.ada.Get(clusterStacks).Want(http.StatusOK)
			for i := range list.Len("") {
				keys = append(keys, list.String(strconv.Itoa(i)+".key"))
			}
			return keys
		}
		w.due()
		for range 23 {
			w.Clock.Advance(time.Hour)
			w.stack.Get("/v3/stacks/alive/scheduled-jobs?queue_key=default").Want(http.StatusOK)
			w.due()
		}
		wantEqual(t, "before the day is over", keys(), []string{"alive", "robot"})
		w.Clock.Advance(time.Hour + time.Minute)
		w.due()
		wantEqual(t, "afterwards", keys(), []string{"alive"})
		w.list("").WantMessage(http.StatusNotFound, "No stack found")
		w.register("robot").Want(http.StatusCreated)
	})
}

// While the server was down no stack could call, so it waits a while before it de-registers any.
func TestStacks_AreNotDeregisteredBecauseTheServerWasDown(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.due()
		w.Clock.Advance(48 * time.Hour)
		again := servertest.Start(t, w.DB, func(p *server.Parts) { p.Key, p.Blobs, p.Clock = w.Key, w.Blobs, w.Clock.Now })
		if err := again.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		again.AsAgent(t, servertest.AcmeAgent).Get(robot + "/scheduled-jobs?queue_key=default").Want(http.StatusOK)
		for range 2 { // the first run writes the call, the second finds silent stacks
			if err := again.RunDue(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.Clock.Advance(20 * time.Minute)
		}
		again.AsAgent(t, servertest.AcmeAgent).Get(robot + "/scheduled-jobs?queue_key=default").Want(http.StatusOK)
	})
}

func TestStacks_AreDeregisteredAfterTheTimeThatIsSet(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		patient := servertest.Start(t, w.DB, func(p *server.Parts) {
			p.Key, p.Blobs, p.Clock, p.Stacks.DeregisterAfter = w.Key, w.Blobs, w.Clock.Now, 30*time.Minute
		})
		w.due()
		w.Clock.Advance(29 * time.Minute)
		if err := patient.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "stacks", w.ada.Get(clusterStacks).Want(http.StatusOK).Len(""), 1)
		w.Clock.Advance(12 * time.Minute)
		if err := patient.RunDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "stacks", w.ada.Get(clusterStacks).Want(http.StatusOK).Len(""), 0)
	})
}

func TestExplain_NamesTheStackThatHasTheJobReserved(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		explain := func() *servertest.Response { return w.ada.Get(acme + "/jobs/" + id + "/explain").Want(http.StatusOK) }
		wantEqual(t, "before", explain().At("reservation"), nil)
		w.reserveFor(600, id)
		until := w.Clock.Now().Add(600 * time.Second).UTC()
		r := explain()
		wantEqual(t, "stack", r.At("reservation.stack_key"), "robot")
		wantEqual(t, "until", r.At("reservation.until"), until.Format("2006-01-02T15:04:05.000Z"))
		wantEqual(t, "reason", r.At("reason"), "The stack robot has reserved it until "+until.Format("2006-01-02 15:04:05 UTC")+", to start an agent for it.")
		w.Clock.Advance(600 * time.Second)
		wantEqual(t, "afterwards", explain().At("reservation"), nil)
	})
}

func TestTimeline_NamesTheStackThatHasTheJobReservedAndUntilWhen(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		id := w.schedule(1)[0]
		reserved := func() []any {
			t.Helper()
			r := w.ada.Get(acme + "/jobs/" + id + "/timeline").Want(http.StatusOK)
			for i := range r.Len("events") {
				if at := "events." + strconv.Itoa(i) + "."; r.At(at+"event") == "reserved" {
					return []any{r.At(at + "stack_key"), r.At(at + "at"), r.At(at + "reserved_until")}
				}
			}
			return nil
		}
		text := func(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z") }
		w.reserveFor(60, id)
		first := w.Clock.Now()
		wantEqual(t, "reserved", reserved(), []any{"robot", text(first), text(first.Add(time.Minute))})
		w.reserveFor(600, id)
		wantEqual(t, "extended", reserved(), []any{"robot", text(first), text(w.Clock.Now().Add(600 * time.Second))})
		w.Clock.Advance(10 * time.Minute)
		wantEqual(t, "expired", reserved(), []any{"robot", text(first), nil})
		w.register("rival").Want(http.StatusCreated)
		w.stack.Put("/v3/stacks/rival/scheduled-jobs/batch-reserve", fields{"job_uuids": []string{id}, "reservation_expiry_seconds": 60}).Want(http.StatusOK)
		wantEqual(t, "by another", reserved(), []any{"rival", text(w.Clock.Now()), text(w.Clock.Now().Add(time.Minute))})
	})
}

func TestTimeline_NamesTheStackThatFinishedTheJobAndWhy(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.schedule(2)
		last := func(id string) []any {
			r := w.ada.Get(acme + "/jobs/" + id + "/timeline").Want(http.StatusOK)
			at := "events." + strconv.Itoa(r.Len("events")-1) + "."
			return []any{r.At(at + "event"), r.At(at + "stack_key"), r.At(at + "detail")}
		}
		w.stack.Post(robot+"/jobs/"+ids[0]+"/finish", fields{"detail": "No machine is left"}).Want(http.StatusOK)
		wantEqual(t, "finished by a stack", last(ids[0]), []any{"finished", "robot", "No machine is left"})
		w.Register(t, nil).Acquire(ids[1]).Start().Finish("0")
		wantEqual(t, "finished by an agent", last(ids[1]), []any{"finished", nil, nil})
	})
}
