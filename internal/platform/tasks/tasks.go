// Package tasks runs durable background work: each task has a due time and is tried until it is done, on either
// engine and by any replica.
//
// A task is a row. [Add] writes it in the transaction that needs the work, so that both are saved or neither. A
// [Runner] finds due tasks and passes them to the handler of their kind. There are two sorts of handlers:
//
//   - [Runner.HandleTx] is for work that only changes the database. The handler and the end of the task are
//     one transaction, so the effect happens exactly once.
//   - [Runner.Handle] is for work that calls other systems. It can happen more than once: when the process
//     dies, or loses the database, between the call and the end of the task.
//
// A runner claims tasks with a lease: a token and a time until which no other runner claims them (claim in
// store.go). When a runner dies, its tasks are claimed again after that time, or as soon as others notice (orphans.go). A runner that was only slow and
// lost its lease cannot end the task any more, and the transaction of its handler is rolled back. The lease is
// checked last, so a handler that waits for locks of other packages does not lock the task, and packages that
// add tasks at the end of their writes lock in the same order.
//
// A task has a key that is unique within its kind. Adding it again changes the waiting task; adding it while it
// runs makes it run once more. The same task never runs twice at the same time, as long as its lease is valid.
//
// A runner without due tasks runs no statements (loop.go): it sleeps until the next task is due or the bus
// announces a new one. If several replicas share a database, the poll of the bus also checks all kinds with one
// statement, because another replica may have died (poll.go).
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

// Task is work to do.
type Task struct {
	Kind string
	// Key is unique within the kind. Most often it is the id of what the work is about.
	Key string
	// Payload is stored as JSON; nil is none. Prefer to read data when the task runs.
	Payload any
	RunAt   time.Time
}

// Due is a task that a handler runs.
type Due struct {
	Kind, Key string
	// DueAt is when the task was due at first.
	DueAt time.Time
	// Attempt is 1 for the first.
	Attempt int
	// LastError is the error of the previous attempt.
	LastError string

	payload string
	lease
}

// Payload reads the payload into the value that dst points to; without a payload it leaves it unchanged.
func (d *Due) Payload(dst any) error {
	if d.payload == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(d.payload), dst); err != nil {
		return fmt.Errorf("read the payload of the task: %w", err)
	}
	return nil
}

// Add adds tasks when the transaction commits. An existing task gets the new payload, and the new time if that
// is earlier; if it was waiting for another attempt, its attempts start again.
func Add(q *db.Q, tasks ...Task) error { return put(q, earlier, tasks) }

// Set is like Add, except that an existing task also gets a later time.
func Set(q *db.Q, tasks ...Task) error { return put(q, overwrite, tasks) }

func put(q *db.Q, when *conflictRule, tasks []Task) error {
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

// distinct returns tasks in the order in which all writers lock them, each once: as if they had been added one
// after the other.
func distinct(tasks []Task, when *conflictRule) []Task {
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

// Remove removes tasks of a kind. If one is running, its transaction does not commit; a call of Handle
// continues.
func Remove(q *db.Q, kind string, keys ...string) error {
	in, arg := q.In("key", 2, keys)
	return q.Later(`DELETE FROM tasks WHERE kind = $1 AND `+q.InOrder("tasks", "key", "kind = $1 AND "+in), kind, arg)
}

// topic is the bus topic of new tasks of a kind.
func topic(kind string) string { return "tasks:" + kind }
