package events_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stackyard/internal/domain/events"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestConsume_WaitsForSmallerNumbersThatAreNotCommitted(t *testing.T) {
	r := newReplica(t, dbtest.New(t, db.PostgreSQL))
	r.want(acme, events.All...)
	processed := r.collect()

	inserted, commit, committed := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		committed <- r.db.Write(t.Context(), func(q *db.Q) error {
			err := r.Write(q, events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "first"})
			close(inserted)
			<-commit
			return err
		})
	}()
	<-inserted
	r.happen(events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "second"})

	// The reader looks at the transactions it waits for again and again; after some looks the first one commits.
	var looks atomic.Int32
	waiting := make(chan struct{})
	r.db.OnStatement(func(text string, _ []any) {
		if strings.Contains(text, "pg_locks") && looks.Add(1) == 3 {
			close(waiting)
		}
	})
	caughtUp := make(chan error)
	go func() { caughtUp <- r.CatchUp(t.Context()) }()
	<-waiting
	// Transactions that begin later are not waited for.
	held, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- r.db.Write(t.Context(), func(q *db.Q) error {
			err := r.Write(q, events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: "third"})
			close(held)
			<-release
			return err
		})
	}()
	<-held
	close(commit)
	if err := errors.Join(<-committed, <-caughtUp); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, *processed, "first", "second")
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r.catchUp()
	wantIDs(t, *processed, "first", "second", "third")
}

// Writers commit and roll back in any order while two replicas consume: every committed event is processed once, in
// the order of numbers, and the events of one writer in the order in which it wrote them.
func TestProperty_ConsumersMissAndRepeatNothing(t *testing.T) {
	const writers, transactions = 8, 60
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		first := newReplica(t, d)
		first.want(acme, events.All...)
		var mu sync.Mutex
		var processed []events.Event
		collect := func(_ context.Context, batch []events.Event) (func(*db.Q) error, error) {
			return func(q *db.Q) error {
				// The row lock of the cursor, which the transaction holds, keeps others away until it commits.
				mu.Lock()
				defer mu.Unlock()
				processed = append(processed, batch...)
				return nil
			}, nil
		}
		replicas := []*replica{first, newReplica(t, d)}
		for _, r := range replicas {
			r.Consume(events.Consumer{Name: "notifications", Process: collect})
		}

		var kept atomic.Int64
		var writing, reading sync.WaitGroup
		undo := errors.New("undo")
		for w := range writers {
			writing.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), 1))
				for n := range transactions {
					list := make([]events.Event, 1+random.IntN(4))
					for i := range list {
						list[i] = events.Event{OrganizationID: acme, Name: events.JobFinished, BuildID: fmt.Sprint(w), JobID: fmt.Sprintf("%04d.%d", n, i)}
					}
					fails := random.IntN(5) == 0
					pauses := random.IntN(20)
					err := d.Write(t.Context(), func(q *db.Q) error {
						if err := first.Write(q, list...); err != nil {
							return err
						}
						for range pauses {
							runtime.Gosched()
						}
						if fails {
							return undo
						}
						return nil
					})
					if err != nil && !errors.Is(err, undo) {
						t.Error(err)
					}
					if err == nil {
						kept.Add(int64(len(list)))
					}
				}
			})
		}
		done := make(chan struct{})
		for _, r := range replicas {
			reading.Go(func() {
				for ended := false; !ended; {
					select {
					case <-done:
						ended = true
					default:
					}
					if err := r.CatchUp(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		writing.Wait()
		close(done)
		reading.Wait()

		if int64(len(processed)) != kept.Load() {
			t.Errorf("%d events processed, %d committed", len(processed), kept.Load())
		}
		if !slices.IsSortedFunc(processed, func(a, b events.Event) int { return int(a.Seq - b.Seq) }) {
			t.Error("events were processed out of order")
		}
		last := map[string]string{}
		for _, e := range processed {
			if e.JobID <= last[e.BuildID] {
				t.Fatalf("writer %s: event %s after %s", e.BuildID, e.JobID, last[e.BuildID])
			}
			last[e.BuildID] = e.JobID
		}
	})
}

func TestRun_ProcessesEventsWhenTheyHappenAndIsIdleOtherwise(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReplica(t, d)
		r.want(acme, events.All...)
		processed := make(chan string, 10)
		r.Consume(events.Consumer{Name: "notifications", Process: func(_ context.Context, batch []events.Event) (func(*db.Q) error, error) {
			return func(*db.Q) error {
				for _, e := range batch {
					processed <- e.BuildID
				}
				return nil
			}, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- r.Run(ctx) }()
		for _, id := range []string{"1", "2", "3"} {
			r.happen(events.Event{OrganizationID: acme, Name: events.BuildRunning, BuildID: id})
			if got := <-processed; got != id {
				t.Fatalf("got %s, want %s", got, id)
			}
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
	})
}
