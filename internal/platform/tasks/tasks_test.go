package tasks_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
	"stackyard/internal/platform/tasks"
)

// inBubble runs a test on each engine with fake time, which passes only while all goroutines wait.
func inBubble(t *testing.T, fn func(t *testing.T, d *db.DB)) {
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			url := dbtest.URL(t, engine)
			synctest.Test(t, func(t *testing.T) { fn(t, dbtest.Open(t, url)) })
		})
	}
}

// newRunner returns a runner that is woken by tasks that its own process adds.
func newRunner(t testing.TB, d *db.DB) *tasks.Runner {
	return newRunnerOn(t, d, bus.New(d, slog.New(slog.NewTextHandler(t.Output(), nil))))
}

func newRunnerOn(t testing.TB, d *db.DB, b *bus.Bus) *tasks.Runner {
	return tasks.New(d, b, core.SystemClock, slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry())
}

// run runs a runner until stop is called, or the test ends.
func run(t testing.TB, r *tasks.Runner) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { r.Run(ctx) })
	stop = func() {
		cancel()
		wait.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func write(t testing.TB, d *db.DB, fn func(q *db.Q) error) {
	t.Helper()
	if err := d.Write(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func add(t testing.TB, d *db.DB, all ...tasks.Task) {
	t.Helper()
	write(t, d, func(q *db.Q) error { return tasks.Add(q, all...) })
}

// after returns a time from now.
func after(d time.Duration) time.Time { return core.SystemClock().Add(d) }

// count returns how many tasks are left.
func count(t testing.TB, d *db.DB) (n int) {
	t.Helper()
	err := d.Read(context.Background(), func(q *db.Q) error {
		return q.QueryRow(`SELECT count(*) FROM tasks`).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// journal records what handlers did, and when.
type journal struct {
	mu    sync.Mutex
	begun time.Time
	lines []string
}

func newJournal() *journal { return &journal{begun: time.Now()} }

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, time.Since(j.begun).Truncate(time.Second).String()+" "+line)
}

// sort orders lines whose order does not matter.
func (j *journal) sort() {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.Sort(j.lines)
}

func (j *journal) want(t testing.TB, lines ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, lines) {
		t.Errorf("the journal says %q, want %q", j.lines, lines)
	}
}

func TestAdd_RunsATaskWhenItIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j, r := newJournal(), newRunner(t, d)
		r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error {
			var name string
			err := due.Payload(&name)
			j.note(due.Key + " " + name)
			return err
		})
		add(t, d, tasks.Task{Kind: "greet", Key: "1", Payload: "Ada", RunAt: after(3 * time.Second)})
		run(t, r)
		add(t, d,
			tasks.Task{Kind: "greet", Key: "2", Payload: "Bo", RunAt: after(time.Hour)},
			tasks.Task{Kind: "greet", Key: "3", Payload: "Cy", RunAt: after(time.Second)},
			tasks.Task{Kind: "unknown", RunAt: after(0)})
		time.Sleep(2 * time.Hour)
		j.want(t, "1s 3 Cy", "3s 1 Ada", "1h0m0s 2 Bo")
		if n := count(t, d); n != 1 {
			t.Errorf("%d tasks are left, want the one without a handler", n)
		}
	})
}

func TestAdd_IsUndoneWithItsTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j, r := newJournal(), newRunner(t, d)
		r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error { j.note(due.Key); return nil })
		run(t, r)
		err := d.Write(t.Context(), func(q *db.Q) error {
			if err := tasks.Add(q, tasks.Task{Kind: "greet", RunAt: after(0)}); err != nil {
				return err
			}
			return context.Canceled
		})
		if err != context.Canceled {
			t.Errorf("got error %v", err)
		}
		time.Sleep(time.Hour)
		j.want(t)
	})
}

func TestAdd_TakesManyAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newRunner(t, d)
		seen := map[string]bool{}
		r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error { seen[due.Key] = true; return nil })
		for _, n := range []int{0, 1, 7, 64, 73, 150} {
			clear(seen)
			var many []tasks.Task
			for i := range n {
				many = append(many, tasks.Task{Kind: "greet", Key: fmt.Sprint(i), RunAt: after(0)})
			}
			add(t, d, many...)
			if err := r.RunDue(t.Context()); err != nil || len(seen) != n {
				t.Errorf("%d of %d tasks were run, %v", len(seen), n, err)
			}
		}
	})
}

func TestAdd_RefusesATaskWithoutATime(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	err := d.Write(t.Context(), func(q *db.Q) error { return tasks.Add(q, tasks.Task{Kind: "greet"}) })
	if err == nil || count(t, d) != 0 {
		t.Errorf("got error %v and %d tasks", err, count(t, d))
	}
}

func TestAddAndSet_DecideWhenATaskThatIsThereIsRun(t *testing.T) {
	at := func(s int) tasks.Task {
		return tasks.Task{Kind: "greet", Payload: s, RunAt: after(time.Duration(s) * time.Second)}
	}
	for name, c := range map[string]struct {
		do   func(q *db.Q) error
		want []string
	}{
		"added earlier":        {func(q *db.Q) error { return tasks.Add(q, at(5)) }, []string{"5s 5"}},
		"added later":          {func(q *db.Q) error { return tasks.Add(q, at(20)) }, []string{"10s 20"}},
		"set earlier":          {func(q *db.Q) error { return tasks.Set(q, at(5)) }, []string{"5s 5"}},
		"set later":            {func(q *db.Q) error { return tasks.Set(q, at(20)) }, []string{"20s 20"}},
		"added twice together": {func(q *db.Q) error { return tasks.Add(q, at(4), at(5)) }, []string{"4s 5"}},
		"set twice together":   {func(q *db.Q) error { return tasks.Set(q, at(4), at(5)) }, []string{"5s 5"}},
		"removed":              {func(q *db.Q) error { return tasks.Remove(q, "greet", "") }, nil},
		"another removed":      {func(q *db.Q) error { return tasks.Remove(q, "greet", "other") }, []string{"10s 10"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, d *db.DB) {
				j, r := newJournal(), newRunner(t, d)
				r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error {
					var s int
					err := due.Payload(&s)
					j.note(fmt.Sprint(s))
					return err
				})
				run(t, r)
				add(t, d, at(10))
				write(t, d, c.do)
				time.Sleep(time.Minute)
				j.want(t, c.want...)
			})
		})
	}
}
