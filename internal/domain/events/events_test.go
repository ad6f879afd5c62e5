package events_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/core/coretest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/rules/flow"
)

const acme, rival = "acme", "rival"

// A replica is an event service with a bus of its own.
type replica struct {
	*events.Service
	t     testing.TB
	db    *db.DB
	bus   *bus.Bus
	clock *coretest.Clock
}

func newReplica(t testing.TB, d *db.DB) *replica {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	b := bus.New(d, log)
	clock := coretest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return &replica{events.New(d, b, clock.Now, log, events.DefaultKeep), t, d, b, clock}
}

func (r *replica) write(fn func(q *db.Q) error) {
	r.t.Helper()
	if err := r.db.Write(r.t.Context(), fn); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replica) want(orgID string, names ...events.Name) {
	r.t.Helper()
	r.write(func(q *db.Q) error { return events.SetWanted(q, "notifications", orgID, events.NamesOf(names...)) })
}

func (r *replica) happen(list ...events.Event) {
	r.t.Helper()
	r.write(func(q *db.Q) error { return r.Write(q, list...) })
}

// collect registers a consumer and returns what it has processed.
func (r *replica) collect() *[]events.Event {
	processed := &[]events.Event{}
	r.Consume(events.Consumer{Name: "notifications", Process: func(_ context.Context, batch []events.Event) (func(*db.Q) error, error) {
		return func(*db.Q) error { *processed = append(*processed, batch...); return nil }, nil
	}})
	return processed
}

// consumeOthers registers the consumers that collect does not, which do nothing: events are kept until all consumers
// have processed them.
func (r *replica) consumeOthers() {
	r.t.Helper()
	var names []string
	err := r.db.Read(r.t.Context(), func(q *db.Q) (err error) {
		names, err = db.Strings(q, `SELECT id FROM event_cursors WHERE id <> 'notifications'`)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	nothing := func(context.Context, []events.Event) (func(*db.Q) error, error) {
		return func(*db.Q) error { return nil }, nil
	}
	for _, name := range names {
		r.Consume(events.Consumer{Name: name, Process: nothing})
	}
}

func (r *replica) catchUp() {
	r.t.Helper()
	if err := r.CatchUp(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func ids(list []events.Event) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.BuildID)
	}
	return ids
}

func wantIDs(t testing.TB, list []events.Event, want ...string) {
	t.Helper()
	if got := ids(list); !slices.Equal(got, want) {
		t.Errorf("got events of %q, want %q", got, want)
	}
}

func TestWrite_KeepsEverythingOfAnEvent(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		processed := r.collect()
		r.want(acme, events.JobFinished)
		exit := 7
		sent := events.Event{
			OrganizationID: acme, Name: events.JobFinished, PipelineID: "p", ClusterID: "c", BuildID: "b", JobID: "j", AgentID: "a", Branch: "main",
			Facts: events.Facts{
				Build: &events.BuildFacts{State: flow.BuildFailing, FailingAt: r.clock.Now()},
				Job:   &events.JobFacts{State: flow.Finished, ExitStatus: &exit, FinishedAt: r.clock.Now()},
			},
		}
		r.happen(sent)
		r.catchUp()
		if len(*processed) != 1 {
			t.Fatalf("%d events, want 1", len(*processed))
		}
		got := (*processed)[0]
		if got.Facts.Build == nil || *got.Facts.Build != *sent.Facts.Build {
			t.Errorf("build facts %+v, want %+v", got.Facts.Build, sent.Facts.Build)
		}
		if job := got.Facts.Job; job == nil || job.State != flow.Finished || *job.ExitStatus != exit || !job.FinishedAt.Equal(r.clock.Now()) {
			t.Errorf("job facts %+v, want %+v", job, sent.Facts.Job)
		}
		if _, ok := core.ParseID(got.ID); !ok || got.Seq == 0 || !got.CreatedAt.Equal(r.clock.Now()) {
			t.Errorf("id %q, seq %d, created at %s", got.ID, got.Seq, got.CreatedAt)
		}
		got.Seq, got.ID, got.CreatedAt, got.Facts, sent.Facts = 0, "", time.Time{}, events.Facts{}, events.Facts{}
		if got != sent {
			t.Errorf("got %+v, want %+v", got, sent)
		}
	})
}

func TestWrite_WritesOnlyWhatAConsumerWants(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		processed := r.collect()
		all := []events.Event{
			{OrganizationID: acme, Name: events.BuildFinished, BuildID: "1"},
			{OrganizationID: acme, Name: events.JobFinished, BuildID: "2"},
			{OrganizationID: rival, Name: events.BuildFinished, BuildID: "3"},
		}
		r.happen(all...)
		r.want(acme, events.BuildFinished)
		r.happen(all...)
		r.catchUp()
		wantIDs(t, *processed, "1")
		r.want(acme)
		r.happen(all...)
		r.catchUp()
		wantIDs(t, *processed, "1")
		r.write(func(q *db.Q) error {
			return events.SetWanted(q, "another", rival, events.NamesOf(events.BuildFinished))
		})
		r.want(rival, events.JobStarted)
		r.happen(all...)
		r.catchUp()
		wantIDs(t, *processed, "1", "3")
	})
}

func TestWrite_CostsNothingWithoutConsumers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		r.happen(events.Event{OrganizationID: acme, Name: events.BuildFinished})
		before := d.Statements()
		for range 10 {
			r.happen(events.Event{OrganizationID: acme, Name: events.BuildFinished})
		}
		if ran := d.Statements() - before; ran != 0 {
			t.Errorf("%d statements, want none", ran)
		}
	})
}

func TestWanted_IsLearnedByOtherReplicas(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here, there := newReplica(t, dbtest.Open(t, url)), newReplica(t, dbtest.Open(t, url))
	wanted := func() (names events.Names) {
		if err := there.db.Read(t.Context(), func(q *db.Q) (err error) { names, err = there.Wanted(q, acme); return err }); err != nil {
			t.Fatal(err)
		}
		return names
	}
	if err := there.bus.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if wanted() != 0 {
		t.Fatal("events are wanted before anybody said so")
	}
	here.want(acme, events.AgentLost)
	if err := there.bus.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !wanted().Has(events.AgentLost) {
		t.Error("the poll did not find the change")
	}
}

func TestConsume_RepeatsABatchThatWasNotCommitted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		r.want(acme, events.All...)
		failure := errors.New("not now")
		var fail error
		var seen, kept []events.Event
		r.Consume(events.Consumer{Name: "notifications", Process: func(_ context.Context, batch []events.Event) (func(*db.Q) error, error) {
			seen = append(seen, batch...)
			return func(*db.Q) error {
				if fail == nil {
					kept = append(kept, batch...)
				}
				return fail
			}, nil
		}})
		r.happen(events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "1"})
		fail = failure
		if err := r.CatchUp(t.Context()); !errors.Is(err, failure) {
			t.Errorf("error %v, want %v", err, failure)
		}
		fail = nil
		r.happen(events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "2"})
		r.catchUp()
		wantIDs(t, seen, "1", "1", "2")
		wantIDs(t, kept, "1", "2")
	})
}

func TestConsume_NeedsACursor(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		r.Consume(events.Consumer{Name: "nobody"})
		if err := r.CatchUp(t.Context()); err == nil {
			t.Error("no error for a consumer without a cursor")
		}
	})
}

func TestAfter_ReturnsWhatTheConsumerHasProcessed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		processed := r.collect()
		r.want(acme, events.All...)
		r.want(rival, events.All...)
		after := func(seq int64, limit int) (list []events.Event) {
			if err := d.Read(t.Context(), func(q *db.Q) (err error) {
				list, _, err = events.After(q, "notifications", acme, events.NamesOf(events.All...), seq, limit)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return list
		}
		r.happen(
			events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "1"},
			events.Event{OrganizationID: rival, Name: events.BuildRunning, BuildID: "2"},
			events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "3"},
			events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "4"},
		)
		wantIDs(t, after(0, 10))
		r.catchUp()
		wantIDs(t, after(0, 2), "1", "3")
		wantIDs(t, after((*processed)[2].Seq, 10), "4")
	})
}

func TestRemoval_KeepsYoungAndUnprocessedEvents(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		processed := r.collect()
		r.consumeOthers()
		r.want(acme, events.All...)
		count := func() (n int) {
			if err := d.Read(t.Context(), func(q *db.Q) error { return q.QueryRow(`SELECT COUNT(*) FROM events`).Scan(&n) }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		remove := func() (more bool) {
			r.write(func(q *db.Q) (err error) { more, err = r.RemoveOld(q); return err })
			return more
		}
		many := make([]events.Event, events.RemoveBatch+1)
		for i := range many {
			many[i] = events.Event{OrganizationID: acme, Name: events.BuildRunning}
		}
		r.happen(many...)
		r.clock.Advance(events.DefaultKeep + time.Second)
		if remove(); count() != len(many) {
			t.Fatalf("%d events, want %d: the consumer has not processed them", count(), len(many))
		}
		r.catchUp()
		r.happen(events.Event{OrganizationID: acme, Name: events.BuildRunning})
		if more := remove(); !more || count() != 2 {
			t.Errorf("%d events, want 2; more to remove: %v", count(), more)
		}
		if more := remove(); more || count() != 1 {
			t.Errorf("%d events, want 1; more to remove: %v", count(), more)
		}
		r.clock.Advance(events.DefaultKeep + time.Second)
		r.catchUp()
		remove()
		if count() != 0 {
			t.Fatalf("%d events, want none", count())
		}
		// Numbers are not used again, so the consumer does not miss what comes after everything was removed.
		*processed = nil
		r.happen(events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "next"})
		r.catchUp()
		wantIDs(t, *processed, "next")
	})
}

func TestNames_SurviveJSON(t *testing.T) {
	all := events.NamesOf(events.All...)
	text, err := all.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back events.Names
	if err := back.UnmarshalJSON(text); err != nil || back != all || !slices.Equal(back.List(), events.All) {
		t.Errorf("%s became %v, %v", text, back.List(), err)
	}
	if err := back.UnmarshalJSON([]byte(`["build.finished", "of.the.future"]`)); err != nil || back != events.NamesOf(events.BuildFinished) {
		t.Errorf("got %v, %v", back.List(), err)
	}
}
