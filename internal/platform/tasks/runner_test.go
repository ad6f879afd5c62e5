package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
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

// put writes a row that a test can count.
func put(q *db.Q, name string) error {
	_, err := q.Exec(`INSERT INTO installation (name, value) VALUES ($1, '')`, name)
	return err
}

// found returns how many rows were put.
func found(t testing.TB, d *db.DB) (n int) {
	t.Helper()
	err := d.Read(context.Background(), func(q *db.Q) error {
		return q.QueryRow(`SELECT count(*) FROM installation`).Scan(&n)
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

func TestHandleTx_RollsBackWhatFailsAndTriesAgainLater(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		r := newRunner(t, d)
		var attempts []time.Time
		var lastErrors []string
		r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error {
			if len(attempts) == due.Attempt-1 { // a transaction can run again
				attempts, lastErrors = append(attempts, time.Now()), append(lastErrors, due.LastError)
			}
			if err := put(q, fmt.Sprint(due.Attempt)); err != nil {
				return err
			}
			switch due.Attempt {
			case 1, 2, 3:
				return errors.New("not \x00 yet \xff")
			case 4:
				panic("out of paper")
			}
			return nil
		})
		add(t, d, tasks.Task{Kind: "greet", RunAt: after(0)})
		run(t, r)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(attempts) != 5 || found(t, d) != 1 || count(t, d) != 0 {
			t.Fatalf("%d attempts, %d effects, %d tasks left", len(attempts), found(t, d), count(t, d))
		}
		for i, most := range []time.Duration{2, 4, 8, 16} {
			waited := attempts[i+1].Sub(attempts[i])
			if most *= time.Second; waited < most/2 || waited > most+time.Second {
				t.Errorf("attempt %d came after %v, want between half and all of %v", i+2, waited, most)
			}
		}
		if lastErrors[0] != "" || lastErrors[1] != "not  yet " || !strings.Contains(lastErrors[4], "out of paper") {
			t.Errorf("attempts got the last errors %q", lastErrors)
		}
	})
}

func TestHandleTx_RunsAgainAtTheTimeItAsksFor(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j, r := newJournal(), newRunner(t, d)
		left := 2
		r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error {
			j.note(fmt.Sprint(due.Attempt, " ", left))
			if left--; left < 0 {
				return nil
			}
			return tasks.Add(q, tasks.Task{Kind: "greet", RunAt: after(time.Minute)})
		})
		add(t, d, tasks.Task{Kind: "greet", RunAt: after(0)})
		run(t, r)
		time.Sleep(time.Hour)
		j.want(t, "0s 1 2", "1m0s 1 1", "2m0s 1 0")
	})
}

func TestHandle_RunsOnceMoreWhatIsRequestedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j, r := newJournal(), newRunner(t, d)
		r.Handle("call", tasks.Limits{Timeout: time.Minute}, func(ctx context.Context, due *tasks.Due) error {
			var n int
			err := due.Payload(&n)
			j.note(fmt.Sprint("begin ", n))
			time.Sleep(10 * time.Second)
			j.note(fmt.Sprint("end ", n))
			return err
		})
		run(t, r)
		add(t, d, tasks.Task{Kind: "call", Payload: 1, RunAt: after(0)})
		time.Sleep(time.Second)
		add(t, d, tasks.Task{Kind: "call", Payload: 2, RunAt: after(20 * time.Second)})
		add(t, d, tasks.Task{Kind: "call", Payload: 3, RunAt: after(0)})
		time.Sleep(time.Hour)
		j.want(t, "0s begin 1", "10s end 1", "10s begin 3", "20s end 3")
	})
}

func TestHandle_GivesUpWhatIsTooOld(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		r := newRunner(t, d)
		var begun, last time.Time
		r.Handle("call", tasks.Limits{Timeout: time.Minute, MaxAge: 24 * time.Hour}, func(ctx context.Context, due *tasks.Due) error {
			last = time.Now()
			return errors.New("no answer")
		})
		begun = time.Now()
		add(t, d, tasks.Task{Kind: "call", RunAt: after(0)})
		run(t, r)
		time.Sleep(72 * time.Hour)
		synctest.Wait()
		if tried := last.Sub(begun); tried < 24*time.Hour || tried > 25*time.Hour || count(t, d) != 0 {
			t.Errorf("tried for %v, and %d tasks are left", tried, count(t, d))
		}
	})
}

func TestHandle_EndsAnAttemptThatTakesTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j, r := newJournal(), newRunner(t, d)
		r.Handle("call", tasks.Limits{Timeout: time.Minute}, func(ctx context.Context, due *tasks.Due) error {
			if due.Attempt == 2 {
				j.note(due.LastError)
				return nil
			}
			<-ctx.Done()
			j.note("ended")
			return ctx.Err()
		})
		add(t, d, tasks.Task{Kind: "call", RunAt: after(0)})
		run(t, r)
		time.Sleep(time.Minute + time.Second)
		j.want(t, "1m0s ended")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := count(t, d); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
	})
}

// A handler that ignores its context runs longer than its lease; then another runner has the task, and the slow
// one cannot end it.
func TestHandle_LeavesToAnotherWhatItDidNotEndInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j := newJournal()
		for range 2 { // replicas
			r := newRunner(t, d)
			r.Handle("call", tasks.Limits{Timeout: time.Minute}, func(ctx context.Context, due *tasks.Due) error {
				j.note(fmt.Sprint("begin ", due.Attempt))
				if due.Attempt == 1 {
					time.Sleep(2 * time.Minute) // until the second one has it
				} else {
					time.Sleep(55 * time.Second)
				}
				j.note(fmt.Sprint("end ", due.Attempt))
				return nil
			})
			run(t, r)
		}
		add(t, d, tasks.Task{Kind: "call", RunAt: after(0)})
		time.Sleep(121 * time.Second)
		j.want(t, "0s begin 1", "1m15s begin 2", "2m0s end 1")
		if n := count(t, d); n != 1 {
			t.Errorf("%d tasks are left; the slow one must not end it", n)
		}
		time.Sleep(time.Hour)
		j.want(t, "0s begin 1", "1m15s begin 2", "2m0s end 1", "2m10s end 2")
		if n := count(t, d); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
	})
}

func TestRemove_KeepsARunningTransactionFromCommitting(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newRunner(t, d)
		r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error {
			if err := tasks.Remove(q, "greet", due.Key); err != nil {
				return err
			}
			return put(q, "effect")
		})
		add(t, d, tasks.Task{Kind: "greet", RunAt: after(0)})
		if err := r.RunDue(t.Context()); err != nil {
			t.Error(err)
		}
		if n := found(t, d); n != 0 {
			t.Errorf("%d effects of a task that was removed", n)
		}
	})
}

func TestRun_GivesBackOnStoppingWhatItCannotEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j := newJournal()
		var calls atomic.Int64
		replica := func(name string) *tasks.Runner {
			r := newRunner(t, d)
			r.Handle("call", tasks.Limits{Timeout: time.Hour}, func(ctx context.Context, due *tasks.Due) error {
				if name == "one" {
					calls.Add(1)
					<-ctx.Done()
					return ctx.Err()
				}
				if due.Attempt != 1 {
					t.Errorf("attempt %d", due.Attempt)
				}
				j.note(due.Key)
				return nil
			})
			return r
		}
		stop := run(t, replica("one"))
		add(t, d, tasks.Task{Kind: "call", Key: "a", RunAt: after(0)})
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if calls.Load() != 1 {
			t.Errorf("%d calls", calls.Load())
		}
		run(t, replica("two"))
		time.Sleep(time.Second)
		j.want(t, "5s a")
	})
}

func TestRun_LetsACallEndWhenStopping(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j, r := newJournal(), newRunner(t, d)
		r.Handle("call", tasks.Limits{Timeout: time.Minute}, func(ctx context.Context, due *tasks.Due) error {
			time.Sleep(3 * time.Second)
			j.note("end")
			return ctx.Err()
		})
		add(t, d, tasks.Task{Kind: "call", RunAt: after(0)})
		stop := run(t, r)
		synctest.Wait()
		stop()
		j.want(t, "3s end")
		if n := count(t, d); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
	})
}

// While there is nothing to do, the database can be closed without any error.
func TestRun_AsksNothingWhenIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		var complaints strings.Builder
		log := slog.New(slog.NewTextHandler(&complaints, nil))
		r := tasks.New(d, bus.New(d, log), core.SystemClock, log, prometheus.NewRegistry())
		r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error { return nil })
		r.Handle("call", tasks.Limits{Timeout: time.Minute}, func(ctx context.Context, due *tasks.Due) error { return nil })
		run(t, r)
		add(t, d, tasks.Task{Kind: "greet", RunAt: after(time.Minute)}, tasks.Task{Kind: "call", RunAt: after(time.Minute)})
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := count(t, d); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
		d.Close()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if complaints.Len() > 0 {
			t.Errorf("the database was used: %s", complaints.String())
		}
	})
}

// addSilently adds a task as a replica does that dies before it notifies others.
func addSilently(t testing.TB, d *db.DB, kind string, at time.Time) {
	t.Helper()
	write(t, d, func(q *db.Q) error {
		_, err := q.Exec(`INSERT INTO tasks (kind, key, due_at, run_at, attempts) VALUES ($1, '', $2, $2, 0)`, kind, db.Micros(at))
		return err
	})
}

func TestPoll_FindsTasksWithoutNotification(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j, r := newJournal(), newRunner(t, d)
		for _, kind := range []string{"now", "soon", "known"} {
			r.HandleTx(kind, func(q *db.Q, due *tasks.Due) error { j.note(kind); return nil })
		}
		run(t, r)
		add(t, d, tasks.Task{Kind: "known", RunAt: after(2 * time.Minute)})
		time.Sleep(time.Minute)
		addSilently(t, d, "now", after(0))
		addSilently(t, d, "soon", after(10*time.Second))
		if err := r.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		j.want(t, "1m0s now", "1m10s soon", "2m0s known")
	})
}

func TestPoll_IsOneStatementForAllKindsAndLeavesThemAsleep(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		r := newRunner(t, d)
		for i := range 20 {
			r.HandleTx(fmt.Sprint("kind ", i), func(q *db.Q, due *tasks.Due) error { return nil })
		}
		r.Sweep("sweep", 24*time.Hour, func(q *db.Q) (bool, error) { return false, nil })
		run(t, r)
		add(t, d, tasks.Task{Kind: "kind 3", RunAt: after(24 * time.Hour)})
		time.Sleep(time.Hour)
		before := d.Statements()
		for range 10 {
			if err := r.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if n := d.Statements() - before; n != 10 {
			t.Errorf("%d statements for 10 glances", n)
		}
	})
}

// replicas returns how many runners a test starts together. A runner on SQLite releases what others run when it starts,
// because a SQLite database has one server.
func replicas(d *db.DB) int {
	if d.Shared() {
		return 2
	}
	return 1
}

func TestSweep_GoesOnWhileThereIsMoreAndComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j := newJournal()
		left := 2
		for range replicas(d) {
			r := newRunner(t, d)
			r.Sweep("retention", time.Hour, func(q *db.Q) (more bool, err error) {
				j.note(fmt.Sprint(left))
				left--
				return left > 0, nil
			})
			run(t, r)
		}
		time.Sleep(3*time.Hour - time.Minute)
		j.want(t, "0s 2", "0s 1", "1h0m0s 0", "2h0m0s -1")
	})
}

func TestRepeat_GoesOnWhileThereIsMoreAndComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j := newJournal()
		left := 2
		for range replicas(d) {
			r := newRunner(t, d)
			r.Repeat("retention", time.Hour, time.Minute, func(ctx context.Context) (more bool, err error) {
				j.note(fmt.Sprint(left))
				left--
				return left > 0, nil
			})
			run(t, r)
		}
		time.Sleep(3*time.Hour - time.Minute)
		j.want(t, "0s 2", "0s 1", "1h0m0s 0", "2h0m0s -1")
	})
}

func TestRunDue_DoesAllThatIsDueAndReturnsWhatFailed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newRunner(t, d)
		refused := errors.New("refused")
		r.HandleTx("first", func(q *db.Q, due *tasks.Due) error {
			return tasks.Add(q, tasks.Task{Kind: "second", Key: due.Key, RunAt: after(0)})
		})
		r.Handle("second", tasks.Limits{Timeout: time.Minute}, func(ctx context.Context, due *tasks.Due) error {
			if due.Key == "3" {
				return refused
			}
			return d.Write(ctx, func(q *db.Q) error { return put(q, due.Key) })
		})
		for n := range 5 {
			add(t, d, tasks.Task{Kind: "first", Key: fmt.Sprint(n), RunAt: after(0)})
		}
		add(t, d, tasks.Task{Kind: "first", Key: "later", RunAt: after(time.Hour)})
		if err := r.RunDue(t.Context()); !errors.Is(err, refused) {
			t.Errorf("got error %v", err)
		}
		if found(t, d) != 4 || count(t, d) != 2 {
			t.Errorf("%d effects, %d tasks left", found(t, d), count(t, d))
		}
	})
}

func TestRunner_CountsByKindAndResult(t *testing.T) {
	d := dbtest.New(t, db.SQLite)
	log := slog.New(slog.DiscardHandler)
	registry := prometheus.NewRegistry()
	r := tasks.New(d, bus.New(d, log), core.SystemClock, log, registry)
	r.HandleTx("greet", func(q *db.Q, due *tasks.Due) error {
		if due.Key == "bad" {
			return errors.New("no")
		}
		return nil
	})
	add(t, d, tasks.Task{Kind: "greet", Key: "good", RunAt: after(-time.Minute)}, tasks.Task{Kind: "greet", Key: "bad", RunAt: after(0)})
	r.RunDue(t.Context())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			line := family.GetName()
			for _, label := range m.GetLabel() {
				line += " " + label.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount())))
		}
	}
	want := []string{
		"stackyard_task_age_seconds greet 1",
		"stackyard_task_attempts_total greet done 1",
		"stackyard_task_attempts_total greet failed 1",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("metrics %q, want %q", lines, want)
	}
}

func TestRun_TakesOverWhatADeadServerWasRunning(t *testing.T) {
	inBubble(t, func(t *testing.T, d *db.DB) {
		j, r := newJournal(), newRunner(t, d)
		r.HandleTx("greet", func(_ *db.Q, due *tasks.Due) error { j.note(due.Key); return nil })
		add(t, d, tasks.Task{Kind: "greet", Key: "1", RunAt: after(0)}, tasks.Task{Kind: "greet", Key: "3", RunAt: after(0)}, tasks.Task{Kind: "greet", Key: "30", RunAt: after(0)})
		write(t, d, func(q *db.Q) error {
			_, err := q.Exec(`UPDATE tasks SET lease = 'of a process that died', run_at = $1, attempts = CAST(key AS BIGINT)`, db.Micros(after(time.Minute)))
			return err
		})
		run(t, r)
		time.Sleep(2 * time.Minute)
		if d.Shared() { // another server may be running them
			j.sort()
			j.want(t, "1m0s 1", "1m0s 3", "1m0s 30")
		} else {
			j.want(t, "0s 1", "4s 3", "1m0s 30")
		}
	})
}
