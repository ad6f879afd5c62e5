package events_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// collectNamed registers a consumer of some events and returns how many it has processed.
func (r *replica) collectNamed(consumer string, names ...events.Name) *[]events.Name {
	processed := &[]events.Name{}
	r.Consume(events.Consumer{Name: consumer, Names: events.NamesOf(names...), Process: func(_ context.Context, batch []events.Event) (func(*db.Q) error, error) {
		return func(*db.Q) error {
			for _, e := range batch {
				*processed = append(*processed, e.Name)
			}
			return nil
		}, nil
	}})
	return processed
}

func TestConsume_GetsOnlyTheNamesThatItHas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		r.want(acme, events.BuildFinished, events.JobStarted, events.JobFinished)
		some, all := r.collectNamed("queue-metrics", events.JobFinished, events.BuildFinished), r.collect()
		var want []events.Name
		for i := range 3 {
			var list []events.Event
			for range 300 { // more than a batch of both kinds
				list = append(list, events.Event{OrganizationID: acme, Name: events.JobStarted})
			}
			list = append(list, events.Event{OrganizationID: acme, Name: events.JobFinished}, events.Event{OrganizationID: acme, Name: events.BuildFinished})
			want = append(want, events.JobFinished, events.BuildFinished)
			r.happen(list...)
			if err := r.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(*some, want) || len(*all) != 302*(i+1) {
				t.Fatalf("one consumer got %q, the other %d events", *some, len(*all))
			}
		}
	})
}

func TestAfter_ReadsTheNamesOfOneOrganization(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		r.want(acme, events.All...)
		r.want(rival, events.All...)
		r.collect()
		for i := range 10 {
			name := []events.Name{events.JobStarted, events.BuildFinished, events.JobFinished}[i%3]
			r.happen(events.Event{OrganizationID: acme, Name: name}, events.Event{OrganizationID: rival, Name: name})
		}
		if err := r.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.happen(events.Event{OrganizationID: acme, Name: events.BuildFinished}) // not processed yet
		var got []string
		var after int64
		for page := range 4 {
			err := d.Read(t.Context(), func(q *db.Q) error {
				list, next, err := events.After(q, "notifications", acme, events.NamesOf(events.BuildFinished, events.JobFinished), after, 3)
				for _, e := range list {
					got = append(got, fmt.Sprint(page, " ", e.Seq, " ", e.Name))
				}
				after = next
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"0 3 build.finished", "0 5 job.finished", "0 9 build.finished", "1 11 job.finished", "1 15 build.finished", "1 17 job.finished"}
		if !slices.Equal(got, want) || after != 20 {
			t.Errorf("got %q up to %d, want %q", got, after, want)
		}
	})
}

// BenchmarkConsume compares a consumer of one event in twenty that gets all with one that gets only its own.
func BenchmarkConsume(b *testing.B) {
	const count = 20_000
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		for name, names := range map[string]events.Names{"all": 0, "named": events.NamesOf(events.BuildFinished)} {
			b.Run(string(engine)+"/"+name, func(b *testing.B) {
				d := dbtest.New(b, engine)
				r := newReplica(b, d)
				r.want(acme, events.All...)
				r.Consume(events.Consumer{Name: "notifications", Names: names, Process: func(context.Context, []events.Event) (func(*db.Q) error, error) {
					return func(*db.Q) error { return nil }, nil
				}})
				for range count / 200 {
					var list []events.Event
					for i := range 200 {
						e := events.Event{OrganizationID: acme, Name: events.JobStarted, BuildID: core.NewID(), JobID: core.NewID(), PipelineID: core.NewID(), Branch: "main",
							Facts: events.Facts{Job: &events.JobFacts{State: "running", AgentID: core.NewID(), StartedAt: r.clock.Now(), RunnableAt: r.clock.Now()}}}
						if i%20 == 0 {
							e.Name = events.BuildFinished
						}
						list = append(list, e)
					}
					r.happen(list...)
				}
				for b.Loop() {
					r.write(func(q *db.Q) error {
						_, err := q.Exec(`UPDATE event_cursors SET seq = 0 WHERE id = 'notifications'`)
						return err
					})
					if err := r.CatchUp(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*count/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
