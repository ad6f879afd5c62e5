// Package tasks is durable background work: something to be done at a time, tried again until it is
// done, on either engine and whichever replica lives.
//
// A task is a row. [Add] writes it in the transaction that wants the work done, so that the wish and
// its reason are saved together or not at all. A [Runner] finds tasks that are due and gives them to
// the handler of their kind. There are two sorts of handlers.
//
//   - [Runner.HandleTx] is for work that only changes the database. What the handler does and the end
//     of the task are one transaction, so the effect happens exactly once.
//   - [Runner.Handle] is for work that calls out. It may happen more than once: when the process dies,
//     or loses the database, between the call and the end of the task.
//
// A runner takes tasks with a lease: a token and a time until which nobody else takes them (claim in
// store.go). When a runner dies, its tasks are taken again after that time. One that was merely slow
// and lost its lease cannot end the task any more, and what its handler did in the transaction is
// rolled back. The lease is checked last, so a handler holds no lock of ours while it waits for
// locks of rooms, and rooms that add tasks at the end of their writes lock in the same order.
//
// A task has a key that is unique within its kind. Adding it again changes the one that waits; while
// it is being run it is noted, and the task is run once more. The same task is never run twice at
// the same time, as long as its lease holds.
//
// A runner that knows of nothing to do asks nothing (loop.go): it sleeps until the next task is due
// or the bus says that there is a new one. Where several replicas share a database the poll of the bus
// asks for all kinds with one statement too, because another replica may have died (glance.go).
package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/db"
)

// Task is work to be done.
type Task struct {
	Kind string
	// Key is unique within the kind. Most often it is the id of what the work is about.
	Key string
	// Payload is kept as JSON; nil is none. What can be read when the task is run is better read
	// then.
	Payload any
	RunAt   time.Time
}

// Due is a task that a handler is to do.
type Due struct {
	Kind, Key string
	// DueAt is when it was to be run at first.
	DueAt time.Time
	// Attempt is 1 for the first.
	Attempt int
	// LastError says what went wrong in the attempt before.
	LastError string

	payload string
	lease
}

// Payload reads the payload into what dst points to; without one it leaves that as it is.
func (d *Due) Payload(dst any) error {
	if d.payload == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(d.payload), dst); err != nil {
		return fmt.Errorf("read the payload of the task: %w", err)
	}
	return nil
}

// Add adds tasks when the transaction commits. One that is there already gets the new payload, and
// the new time if that is earlier; if it was waiting for another attempt, it begins anew.
func Add(q *db.Q, tasks ...Task) error { return put(q, earlier, tasks) }

// Set is like Add, except that a task that is there already gets the new time also when it is later.
func Set(q *db.Q, tasks ...Task) error { return put(q, asAsked, tasks) }

func put(q *db.Q, when *collision, tasks []Task) error {
	for _, t := range tasks {
		if t.RunAt.IsZero() {
			return errors.New("tasks: the task " + t.Kind + " has no time to run at")
		}
	}
	if len(tasks) > 1 {
		tasks = distinct(tasks, when)
	}
	if err := insert(q, when, tasks); err != nil {
		return err
	}
	for i, t := range tasks {
		if i == 0 || t.Kind != tasks[i-1].Kind {
			q.Announce(topic(t.Kind))
		}
	}
	return nil
}

// distinct returns tasks in the order in which all writers lock them, each once: as if they had been
// put one after the other.
func distinct(tasks []Task, when *collision) []Task {
	sorted := slices.Clone(tasks)
	slices.SortStableFunc(sorted, compare)
	last := 0
	for _, t := range sorted[1:] {
		switch same := &sorted[last]; {
		case compare(*same, t) != 0:
			last++
			sorted[last] = t
		case when == earlier && same.RunAt.Before(t.RunAt):
			same.Payload = t.Payload
		default:
			*same = t
		}
	}
	return sorted[:last+1]
}

func compare(a, b Task) int {
	if c := strings.Compare(a.Kind, b.Kind); c != 0 {
		return c
	}
	return strings.Compare(a.Key, b.Key)
}

// Remove removes tasks of a kind that are there. If one is being run, its transaction does not
// commit; a call that has begun goes on.
func Remove(q *db.Q, kind string, keys ...string) error {
	in, arg := q.In("key", 2, keys)
	_, err := q.Exec(`DELETE FROM tasks WHERE kind = $1 AND `+q.InOrder("tasks", "key", "kind = $1 AND "+in), kind, arg)
	return err
}

// topic is what the bus calls new tasks of a kind.
func topic(kind string) string { return "tasks:" + kind }
