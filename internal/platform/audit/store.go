package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// An Event is a record of the trail.
type Event struct {
	ID        string
	CreatedAt time.Time
	Action    string
	Subject   Subject
	Actor     Actor
	Changes   []Change
}

// A Filter selects records. Empty fields select all.
type Filter struct {
	ActorID     string // of a user or an agent token
	Action      string
	SubjectType string
	SubjectID   string
	Channel     Channel
	From, To    time.Time // From is included, To is not
}

// A Position is a place between two records; the zero value is the end that reading starts from.
type Position struct {
	At time.Time
	ID string
}

const selectEvent = `
	SELECT id, created_at, action, subject_type, subject_id, subject_name, actor_type, actor_id, actor_name, actor_email,
		token_id, token_description, channel, address, user_agent, request_id, changes
	FROM audit_events`

func scanEvent(scan db.Scan) (e Event, err error) {
	a := &e.Actor
	err = scan(&e.ID, db.ToTime(&e.CreatedAt), &e.Action, &e.Subject.Type, &e.Subject.ID, &e.Subject.Name, &a.Type, &a.ID, &a.Name, &a.Email,
		&a.TokenID, &a.TokenDescription, &a.Channel, &a.Address, &a.UserAgent, &a.RequestID, db.ToJSON(&e.Changes))
	return e, err
}

// Get returns a record of an organization, or a NotFound error.
func Get(q *db.Q, organizationID, id string) (Event, error) {
	e, err := db.One(q, scanEvent, selectEvent+` WHERE organization_id = $1 AND id = $2`, organizationID, id)
	return e, db.OrNotFound(err, "No audit event found")
}

// List returns up to limit records of an organization that follow a position, newest first; oldest first if reverse is
// set.
func List(q *db.Q, organizationID string, f Filter, after Position, reverse bool, limit int) ([]Event, error) {
	args := []any{organizationID}
	conditions := []string{"organization_id = $1"}
	where := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		conditions = append(conditions, condition)
	}
	for _, c := range []struct{ column, value string }{
		{"actor_id", f.ActorID}, {"action", f.Action}, {"subject_type", f.SubjectType}, {"subject_id", f.SubjectID}, {"channel", string(f.Channel)},
	} {
		if c.value != "" {
			where(c.column+" = ?", c.value)
		}
	}
	if !f.From.IsZero() {
		where("created_at >= ?", db.Micros(f.From))
	}
	if !f.To.IsZero() {
		where("created_at < ?", db.Micros(f.To))
	}
	order, than := " DESC", "<"
	if reverse {
		order, than = "", ">"
	}
	if after != (Position{}) {
		where("(created_at, id) "+than+" (?, ?)", db.Micros(after.At), after.ID)
	}
	args = append(args, limit)
	return db.All(q, scanEvent, selectEvent+` WHERE `+strings.Join(conditions, " AND ")+
		` ORDER BY created_at`+order+`, id`+order+fmt.Sprintf(` LIMIT $%d`, len(args)), args...)
}

// Remove deletes up to limit records of an organization from before a time, and returns how many.
func Remove(q *db.Q, organizationID string, before time.Time, limit int) (int64, error) {
	return q.DeleteSome(limit, "audit_events", "organization_id = $1 AND created_at < $2", organizationID, db.Micros(before))
}

// Position returns the place of the record.
func (e Event) Position() Position { return Position{e.CreatedAt, e.ID} }

// ParsePosition returns the position of a cursor.
func ParsePosition(c core.Cursor) (Position, error) {
	var p Position
	if c == nil {
		return p, nil
	}
	at, ok := core.ParseTime(c[0])
	id, valid := core.ParseID(c[1])
	if !ok || !valid {
		return p, core.Errorf(core.BadRequest, "The cursor is not valid; use one from a previous response, unchanged")
	}
	return Position{at, id}, nil
}

// Cursor returns the position as a cursor.
func (p Position) Cursor() core.Cursor {
	return core.Cursor{p.At.UTC().Format(time.RFC3339Nano), p.ID}
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
