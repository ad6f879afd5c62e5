package bus_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func newBus(t testing.TB, d *db.DB) *bus.Bus {
	return bus.New(d, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// run runs a bus until the end of the test, and returns when it is connected, which wakes all subscribers.
func run(t testing.TB, b *bus.Bus) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	connected, unsubscribe := b.Subscribe("connected")
	defer unsubscribe()
	var wait sync.WaitGroup
	wait.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wait.Wait()
	})
	await(t, connected)
}

// await waits until the subscriber is woken.
func await(t testing.TB, woken <-chan struct{}) {
	t.Helper()
	select {
	case <-woken:
	case <-time.After(20 * time.Second):
		t.Error("the subscriber was not woken")
	}
}

// asleep fails the test if the subscriber has been woken.
func asleep(t testing.TB, woken <-chan struct{}) {
	t.Helper()
	select {
	case <-woken:
		t.Error("the subscriber was woken")
	default:
	}
}

func TestPublish_WakesTheSubscribersOfItsTopicsOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBus(t, d)
		both, cancel := b.Subscribe("build:1", "build:2")
		defer cancel()
		one, cancel := b.Subscribe("build:1")
		defer cancel()
		other, cancel := b.Subscribe("build:3")
		defer cancel()
		b.Publish("build:1")
		b.Publish("build:2", "build:2")
		await(t, both)
		await(t, one)
		asleep(t, both)
		asleep(t, one)
		asleep(t, other)
		b.Publish("build:2")
		await(t, both)
		asleep(t, one)
	})
}

func TestSubscribe_EndsWithItsCancel(t *testing.T) {
	b := newBus(t, dbtest.New(t, db.SQLite))
	woken, cancel := b.Subscribe("build:1", "build:2")
	still, cancelStill := b.Subscribe("build:1")
	defer cancelStill()
	cancel()
	cancel()
	b.Publish("build:1", "build:2")
	asleep(t, woken)
	await(t, still)
}

func TestAnnounce_WakesSubscribersAfterTheCommit(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBus(t, d)
		woken, cancel := b.Subscribe("build:1")
		defer cancel()
		err := d.Write(t.Context(), func(q *db.Q) error {
			q.Announce("build:1")
			asleep(t, woken)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		await(t, woken)
	})
}

// A subscriber that reads after subscribing, and again when woken, sees every change, whatever the timing.
func TestSubscribe_MissesNothingWhenLookingAfterIt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := newBus(t, d)
		const subscribers, changes = 8, 50
		var wait sync.WaitGroup
		for range subscribers {
			wait.Go(func() {
				woken, cancel := b.Subscribe("counter")
				defer cancel()
				for read(t, d) < changes {
					await(t, woken)
				}
			})
		}
		for n := range changes {
			err := d.Write(t.Context(), func(q *db.Q) error {
				q.Announce("counter")
				_, err := q.Exec(`INSERT INTO installation (name, value) VALUES ($1, '')`, fmt.Sprint(n))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		wait.Wait()
	})
}

func read(t testing.TB, d *db.DB) (n int) {
	err := d.Read(t.Context(), func(q *db.Q) error {
		return q.QueryRow(`SELECT count(*) FROM installation`).Scan(&n)
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

func BenchmarkPublish(b *testing.B) {
	bus := newBus(b, dbtest.New(b, db.SQLite))
	_, cancel := bus.Subscribe("queue:0198c0de-0000-7000-8000-000000000000")
	defer cancel()
	for b.Loop() {
		bus.Publish("queue:0198c0de-0000-7000-8000-000000000000")
	}
}
