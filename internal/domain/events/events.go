// Package events records state changes of builds, jobs, agents and agent tokens, and hands them to consumers in
// order, each once.
//
// A capability writes events with [Service.Write] in the transaction that changes the state, with the facts that
// may differ later ([Facts]). What never changes is read from the capability's own rows when it is needed. Events
// that no consumer wants are not written: each consumer says with [SetWanted] which events of an organization it wants,
// and every process keeps that in memory (wanted.go).
//
// Events are numbered. A reader that has seen number n never finds an event with a smaller number later
// (order.go), so a cursor is a number. A [Consumer] has a named cursor, which moves in the transaction that
// writes what the consumer makes of a batch (consume.go).
//
// This package does not know what consumers do with events.
package events

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// An Event is a state change.
type Event struct {
	Seq            int64 // orders events; set when the event is written
	ID             string
	OrganizationID string
	Name           Name
	PipelineID     string // these are empty where they do not apply
	ClusterID      string
	BuildID        string
	JobID          string
	AgentID        string
	Branch         string
	Facts          Facts
	CreatedAt      time.Time
}

// Service writes and reads events.
type Service struct {
	db        *db.DB
	bus       *bus.Bus
	clock     core.Clock
	log       *slog.Logger
	keep      time.Duration
	wanted    *wantedCache
	consumers []*Consumer
}

// DefaultKeep is how long events are kept unless set otherwise, and MinKeep the least: longer than deliveries
// are retried.
const (
	DefaultKeep = 30 * 24 * time.Hour
	MinKeep     = 48 * time.Hour
)

// New returns the service of the events in a database. Events are removed when they are older than keep and all
// consumers have processed them.
func New(d *db.DB, b *bus.Bus, clock core.Clock, log *slog.Logger, keep time.Duration) *Service {
	s := &Service{db: d, bus: b, clock: clock, log: log, keep: keep, wanted: newWantedCache(b)}
	b.OnPoll(s.poll)
	return s
}

// topic is what the bus calls new events.
const topic = "events"

// Write writes those events that a consumer wants, in their order, with one statement. Call it as late in a
// transaction as possible: consumers wait for transactions that have written events and have not ended.
func (s *Service) Write(q *db.Q, list ...Event) error {
	var write []Event
	for _, e := range list {
		wanted, err := s.Wanted(q, e.OrganizationID)
		if err != nil {
			return err
		}
		if wanted.Has(e.Name) {
			write = append(write, e)
		}
	}
	if len(write) == 0 {
		return nil
	}
	now := s.clock()
	q.Announce(topic)
	return db.InsertMany(q, `
		INSERT INTO events (id, organization_id, name, pipeline_id, cluster_id, build_id, job_id, agent_id, branch, facts, created_at)`,
		write, func(e Event) []any {
			return []any{core.NewID(), e.OrganizationID, e.Name, db.Text(e.PipelineID), db.Text(e.ClusterID),
				db.Text(e.BuildID), db.Text(e.JobID), db.Text(e.AgentID), db.Text(e.Branch), db.JSON(e.Facts), db.Micros(now)}
		}, "")
}

const selectEvent = `
	SELECT seq, id, organization_id, name, pipeline_id, cluster_id, build_id, job_id, agent_id, branch, facts, created_at
	FROM events `

func scanEvent(scan db.Scan) (e Event, err error) {
	err = scan(&e.Seq, &e.ID, &e.OrganizationID, &e.Name, db.ToText(&e.PipelineID), db.ToText(&e.ClusterID),
		db.ToText(&e.BuildID), db.ToText(&e.JobID), db.ToText(&e.AgentID), db.ToText(&e.Branch), db.ToJSON(&e.Facts), db.ToTime(&e.CreatedAt))
	return e, err
}

// Get returns the event with a number, or a NotFound error when it has been removed.
func Get(q *db.Q, seq int64) (Event, error) {
	found, err := db.All(q, scanEvent, selectEvent+`WHERE seq = $1`, seq)
	if err == nil && len(found) == 0 {
		err = core.Errorf(core.NotFound, "No event found")
	}
	if err != nil {
		return Event{}, err
	}
	return found[0], nil
}

// After returns events of an organization with some names that a consumer has processed, after a number and in order. It
// also returns the number after which to read on: of the last of them, or if there are no more, of the last event
// that the consumer has processed. Each name is a range of an index, so other events cost nothing.
func After(q *db.Q, consumer, orgID string, names Names, seq int64, limit int) (list []Event, next int64, err error) {
	var processed int64
	if err := q.QueryRow(`SELECT seq FROM event_cursors WHERE id = $1`, consumer).Scan(&processed); err != nil {
		return nil, seq, err
	}
	next = max(seq, processed)
	if names == 0 {
		return nil, next, nil
	}
	var parts []string
	args := []any{orgID, seq, processed, limit}
	for _, name := range names.List() {
		args = append(args, name)
		parts = append(parts, `SELECT * FROM (`+selectEvent+`
			WHERE organization_id = $1 AND name = $`+strconv.Itoa(len(args))+` AND seq > $2 AND seq <= $3
			ORDER BY seq LIMIT $4) AS part`)
	}
	list, err = db.All(q, scanEvent, strings.Join(parts, ` UNION ALL `)+` ORDER BY seq LIMIT $4`, args...)
	if len(list) == limit {
		next = list[limit-1].Seq
	}
	return list, next, err
}
