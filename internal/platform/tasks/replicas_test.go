package tasks_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/tasks"
)

// until waits for a condition that changes with announcements of "effect".
func until(t testing.TB, b *bus.Bus, condition func() bool) {
	t.Helper()
	woken, cancel := b.Subscribe("effect")
	defer cancel()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-woken:
		case <-deadline:
			t.Fatal("waited too long")
		}
	}
}

// Two replicas on one database share the work, and no effect happens twice: a second insert of the row would
// fail.
func TestRunners_ShareWorkWithoutDoubles(t *testing.T) {
	const all = 500
	url := dbtest.URL(t, db.PostgreSQL)
	var tx, calls [2]atomic.Int64
	var d *db.DB
	var b *bus.Bus
	var stops []func()
	for i := range tx {
		replica := dbtest.Open(t, url)
		d, b = replica, newBus(t, replica)
		r := newRunnerOn(t, d, b)
		r.HandleTx("tx", func(q *db.Q, due *tasks.Due) error {
			tx[i].Add(1)
			q.Announce("effect")
			return put(q, "tx "+due.Key)
		})
		r.Handle("call", tasks.Limits{Timeout: time.Minute}, func(ctx context.Context, due *tasks.Due) error {
			calls[i].Add(1)
			return replica.Write(ctx, func(q *db.Q) error {
				q.Announce("effect")
				return put(q, "call "+due.Key)
			})
		})
		stops = append(stops, run(t, r))
	}
	for n := range all {
		key := fmt.Sprint(n)
		add(t, d, tasks.Task{Kind: "tx", Key: key, RunAt: after(0)}, tasks.Task{Kind: "call", Key: key, RunAt: after(0)})
	}
	until(t, b, func() bool { return found(t, d) == 2*all })
	for _, stop := range stops {
		stop()
	}
	if n := count(t, d); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
	if one, two := calls[0].Load(), calls[1].Load(); one+two != all {
		t.Errorf("%d and %d calls, want %d together", one, two, all)
	}
	if one, two := tx[0].Load(), tx[1].Load(); one == 0 || two == 0 {
		t.Errorf("they did %d and %d tasks", one, two)
	}
}

// Whatever the timing, a request that comes while a task waits, is claimed, runs or ends is seen by a run that
// starts later.
func TestRunners_LoseNothingThatIsAskedForMeanwhile(t *testing.T) {
	const keys, writers, each = 4, 8, 40
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.URL(t, engine)
			d := dbtest.Open(t, url)
			write(t, d, func(q *db.Q) error {
				_, err := q.Exec(`CREATE TABLE requests (id TEXT PRIMARY KEY, requested BIGINT NOT NULL, seen BIGINT NOT NULL)`)
				return err
			})
			for n := range keys {
				write(t, d, func(q *db.Q) error {
					_, err := q.Exec(`INSERT INTO requests (id, requested, seen) VALUES ($1, 0, 0)`, fmt.Sprint(n))
					return err
				})
			}
			replicas := []*db.DB{d}
			if d.Shared() {
				replicas = append(replicas, dbtest.Open(t, url))
			}
			var b *bus.Bus
			for _, d := range replicas {
				b = newBus(t, d)
				r := newRunnerOn(t, d, b)
				r.HandleTx("see", func(q *db.Q, due *tasks.Due) error {
					q.Announce("effect")
					_, err := q.Exec(`UPDATE requests SET seen = requested WHERE id = $1`, due.Key)
					return err
				})
				run(t, r)
			}
			var wait sync.WaitGroup
			for w := range writers {
				wait.Go(func() {
					for n := range each {
						key := fmt.Sprint((w + n) % keys)
						err := replicas[w%len(replicas)].Write(t.Context(), func(q *db.Q) error {
							if _, err := q.Exec(`UPDATE requests SET requested = requested + 1 WHERE id = $1`, key); err != nil {
								return err
							}
							return tasks.Add(q, tasks.Task{Kind: "see", Key: key, RunAt: after(0)})
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wait.Wait()
			until(t, b, func() bool { return count(t, d) == 0 })
			var requested, seen int
			write(t, d, func(q *db.Q) error {
				return q.QueryRow(`SELECT sum(requested), sum(seen) FROM requests`).Scan(&requested, &seen)
			})
			if requested != writers*each || seen != requested {
				t.Errorf("requested %d times, seen %d", requested, seen)
			}
		})
	}
}

// A process that loses all its connections is dead for others: they run its tasks long before its lease ends. One that
// has connections keeps them.
func TestRun_TakesOverFromAProcessWithoutConnections(t *testing.T) {
	url := dbtest.URL(t, db.PostgreSQL)
	here, dead, slow := dbtest.Open(t, url), dbtest.Open(t, url), dbtest.Open(t, url)
	claimed, release := make(chan struct{}), make(chan struct{})
	for _, d := range []*db.DB{dead, slow} {
		r := newRunnerOn(t, d, bus.New(d, slog.New(slog.NewTextHandler(t.Output(), nil))))
		r.Handle("call "+d.Process(), tasks.Limits{Timeout: time.Hour}, func(ctx context.Context, due *tasks.Due) error {
			claimed <- struct{}{}
			<-release
			return nil
		})
		add(t, d, tasks.Task{Kind: "call " + d.Process(), RunAt: after(0)})
		run(t, r)
		<-claimed
	}
	t.Cleanup(func() { close(release) })
	b := newBus(t, here)
	r := newRunnerOn(t, here, b)
	ran := make(chan string, 10)
	for _, d := range []*db.DB{dead, slow} {
		r.Handle("call "+d.Process(), tasks.Limits{Timeout: time.Hour}, func(ctx context.Context, due *tasks.Due) error {
			ran <- due.Kind
			return nil
		})
	}
	kind := "call " + dead.Process()
	dead.Close()
	run(t, r)
	if got := <-ran; got != kind {
		t.Errorf("took over %q", got)
	}
	for range 3 { // what has connections stays, however often others look
		if err := b.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(ran) > 0 {
		t.Errorf("took over %q, whose process is alive", <-ran)
	}
}

// newBus returns a bus that is connected to other replicas until the end of the test.
func newBus(t testing.TB, d *db.DB) *bus.Bus {
	b := bus.New(d, slog.New(slog.NewTextHandler(t.Output(), nil)))
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wait.Wait()
	})
	return b
}

// BenchmarkTasks metrics tasks per second that are added one by one, each in its own write, and run in a
// transaction. The factor compares with as many inserts and deletes of a small row by as many callers in the
// same run.
func BenchmarkTasks(b *testing.B) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		b.Run(string(engine), func(b *testing.B) {
			d := dbtest.New(b, engine)
			r := newRunnerOn(b, d, newBus(b, d))
			var done sync.WaitGroup
			r.HandleTx("work", func(q *db.Q, due *tasks.Due) error {
				q.Announce("worked")
				return nil
			})
			d.OnAnnounce(func(topics []string) {
				for _, topic := range topics {
					if topic == "worked" {
						done.Done()
					}
				}
			})
			run(b, r)
			b.ResetTimer()
			done.Add(b.N)
			many(b.N, func(n int) {
				add(b, d, tasks.Task{Kind: "work", Key: fmt.Sprint(n), Payload: "a payload of a usual size", RunAt: after(0)})
			})
			done.Wait()
			ours := b.Elapsed()
			b.StopTimer()

			began := time.Now()
			many(b.N, func(n int) {
				write(b, d, func(q *db.Q) error { return put(q, fmt.Sprint(n)) })
				write(b, d, func(q *db.Q) error {
					_, err := q.Exec(`DELETE FROM installation WHERE name = $1`, fmt.Sprint(n))
					return err
				})
			})
			bare := time.Since(began)
			b.ReportMetric(float64(b.N)/ours.Seconds(), "tasks/s")
			b.ReportMetric(float64(bare)/float64(ours), "rate/bare-insert-and-delete")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// many calls fn with each number below n, with eight goroutines.
func many(n int, fn func(int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				fn(i)
			}
		})
	}
	wait.Wait()
}
