package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// TestModel compares the table with a model, whatever is added, removed, claimed, completed, failed and dropped
// in any order while time passes: each task takes effect exactly once for each request that was not merged with
// another, none is lost, and the task that has been due for longest is claimed first.
func TestModel(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		rapid.Check(t, func(rt *rapid.T) {
			m := newModel(rt, d)
			rt.Repeat(map[string]func(*rapid.T){
				"":       m.check,
				"add":    m.add,
				"set":    m.set,
				"remove": m.remove,
				"take":   m.take,
				"do":     m.do,
				"fail":   m.fail,
				"crash":  m.crash,
				"pass":   m.pass,
			})
			m.finish(rt)
		})
	})
}

// modelTask is the expected row.
type modelTask struct {
	runAt, again time.Time
	holder       *Due // the last one that claimed it
	attempts     int
	requested    int // the last Add or Set that it contains
}

// model is the expected contents of the table.
type model struct {
	d         *db.DB
	kind      *kind
	now       time.Time
	tasks     map[string]*modelTask
	hands     []*Due // claimed, and neither done nor dropped
	fails     bool   // what the handler does next
	requested int
	effect    map[string]int // by key, how often it took effect
	seen      map[string]int // by key, the last request before it last took effect
}

var keys = rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})

func newModel(t *rapid.T, d *db.DB) *model {
	m := &model{d: d, now: time.UnixMicro(1e15).UTC(), tasks: map[string]*modelTask{}, effect: map[string]int{}, seen: map[string]int{}}
	log := slog.New(slog.DiscardHandler)
	r := New(d, bus.New(d, log), func() time.Time { return m.now }, log, prometheus.NewRegistry())
	r.HandleTx("k", func(q *db.Q, due *Due) error {
		_, err := q.Exec(`INSERT INTO installation (name, value) VALUES ($1, '1')
			ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(installation.value AS BIGINT) + 1 AS text)`, due.Key)
		if m.fails {
			return errors.New("it failed")
		}
		return err
	})
	m.kind = r.kinds[0]
	m.write(t, func(q *db.Q) error {
		if _, err := q.Exec(`DELETE FROM installation`); err != nil {
			return err
		}
		_, err := q.Exec(`DELETE FROM tasks`)
		return err
	})
	return m
}

func (m *model) write(t *rapid.T, fn func(q *db.Q) error) {
	if err := m.d.Write(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func (m *model) add(t *rapid.T) { m.request(t, Add, time.Time.Before) }

func (m *model) set(t *rapid.T) {
	is := m.request(t, Set, func(time.Time, time.Time) bool { return true })
	if is.holder == nil {
		is.again = time.Time{}
	}
}

func (m *model) request(t *rapid.T, put func(*db.Q, ...Task) error, moves func(requested, is time.Time) bool) *modelTask {
	key := keys.Draw(t, "key")
	at := m.now.Add(time.Duration(rapid.IntRange(-10, 60).Draw(t, "seconds")) * time.Second)
	m.requested++
	m.write(t, func(q *db.Q) error { return put(q, Task{Kind: "k", Key: key, RunAt: at}) })
	switch is := m.tasks[key]; {
	case is == nil:
		m.tasks[key] = &modelTask{runAt: at}
	case is.holder != nil:
		if is.again.IsZero() || moves(at, is.again) {
			is.again = at
		}
	case moves(at, is.runAt):
		is.runAt, is.attempts = at, 0
	}
	is := m.tasks[key]
	is.requested = m.requested
	return is
}

func (m *model) remove(t *rapid.T) {
	key := keys.Draw(t, "key")
	m.write(t, func(q *db.Q) error { return Remove(q, "k", key) })
	delete(m.tasks, key)
}

func (m *model) take(t *rapid.T) {
	limit := rapid.IntRange(1, 3).Draw(t, "limit")
	due, _, err := m.kind.claim(context.Background(), limit)
	if err != nil {
		t.Fatal(err)
	}
	var should, did []time.Time
	for _, is := range m.tasks {
		if !is.runAt.After(m.now) {
			should = append(should, is.runAt)
		}
	}
	slices.SortFunc(should, time.Time.Compare)
	should = should[:min(limit, len(should))]
	for _, d := range due {
		is := m.tasks[d.Key]
		if is == nil {
			t.Fatalf("took %s, which is not there", d.Key)
		}
		did = append(did, is.runAt)
		is.attempts++
		if is.runAt, is.holder = d.until, d; d.Attempt != is.attempts {
			t.Fatalf("attempt %d of %s, want %d", d.Attempt, d.Key, is.attempts)
		}
	}
	if !slices.Equal(did, should) {
		t.Fatalf("took those of %v, want %v", did, should)
	}
	m.hands = append(m.hands, due...)
}

// drop removes a task from the claimed ones.
func (m *model) drop(t *rapid.T) *Due {
	if len(m.hands) == 0 {
		t.Skip("nothing is being run")
	}
	i := rapid.IntRange(0, len(m.hands)-1).Draw(t, "which")
	d := m.hands[i]
	m.hands = slices.Delete(m.hands, i, i+1)
	return d
}

func (m *model) crash(t *rapid.T) { m.drop(t) }

func (m *model) do(t *rapid.T) {
	m.fails = false
	d := m.drop(t)
	if err := m.kind.attempt(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	is := m.tasks[d.Key]
	if is == nil || is.holder != d || !m.now.Before(d.until) {
		return // it was too late, or the task was removed
	}
	m.effect[d.Key]++
	if is.again.IsZero() {
		m.seen[d.Key] = is.requested
		delete(m.tasks, d.Key)
	} else {
		*is = modelTask{runAt: is.again, requested: is.requested}
	}
}

func (m *model) fail(t *rapid.T) {
	m.fails = true
	d := m.drop(t)
	is := m.tasks[d.Key]
	tried := m.now.Before(d.until)
	if err := m.kind.attempt(context.Background(), d); (err != nil) != tried {
		t.Fatalf("got error %v, and it was tried: %v", err, tried)
	}
	if is == nil || is.holder != d || !tried {
		return
	}
	is.holder = nil
	is.runAt = m.rows(t)[d.Key].runAt
	if delay := is.runAt.Sub(m.now); delay < time.Second || delay > maxBackoff {
		t.Fatalf("it waits %v for another attempt", delay)
	}
}

func (m *model) pass(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 50_000).Draw(t, "ms")) * time.Millisecond)
}

// rows returns the contents of the table.
func (m *model) rows(t *rapid.T) map[string]modelTask {
	rows := map[string]modelTask{}
	m.write(t, func(q *db.Q) error {
		_, err := db.All(q, func(scan db.Scan) (is modelTask, err error) {
			var key, token string
			err = scan(&key, db.ToTime(&is.runAt), db.ToTime(&is.again), db.ToText(&token), &is.attempts)
			if token != "" {
				is.holder = &Due{lease: lease{token: token}}
			}
			rows[key] = is
			return is, err
		}, `SELECT key, run_at, again_at, lease, attempts FROM tasks`)
		return err
	})
	return rows
}

// check compares the table, and the effects of handlers, with the model.
func (m *model) check(t *rapid.T) {
	rows := m.rows(t)
	for key, is := range m.tasks {
		row, ok := rows[key]
		switch {
		case !ok:
			t.Fatalf("%s is lost", key)
		case !row.runAt.Equal(is.runAt) || !row.again.Equal(is.again) || row.attempts != is.attempts || (row.holder == nil) != (is.holder == nil):
			t.Fatalf("%s is %+v, want %+v", key, row, *is)
		case is.holder != nil && row.holder.token != is.holder.token:
			t.Fatalf("another has the lease of %s", key)
		}
	}
	if len(rows) != len(m.tasks) {
		t.Fatalf("%d tasks, want %d", len(rows), len(m.tasks))
	}
	m.write(t, func(q *db.Q) error {
		effects := map[string]int{}
		_, err := db.All(q, func(scan db.Scan) (n int, err error) {
			var key string
			err = scan(&key, &n)
			effects[key] = n
			return n, err
		}, `SELECT name, CAST(value AS BIGINT) FROM installation`)
		if fmt.Sprint(effects) != fmt.Sprint(m.effect) {
			t.Fatalf("effects %v, want %v", effects, m.effect)
		}
		return err
	})
}

// finish advances time until everything is done. A handler has seen the last request.
func (m *model) finish(t *rapid.T) {
	requested := map[string]int{}
	for key, is := range m.tasks {
		requested[key] = is.requested
	}
	m.hands = nil
	for len(m.tasks) > 0 {
		m.now = m.now.Add(maxBackoff)
		m.take(t)
		for len(m.hands) > 0 {
			m.do(t)
		}
	}
	m.check(t)
	for key, n := range requested {
		if m.seen[key] < n {
			t.Fatalf("%s was requested after it last took effect", key)
		}
	}
}
