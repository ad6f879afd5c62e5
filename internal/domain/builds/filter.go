package builds

import (
	"strings"
	"time"

	"stackyard/internal/domain/metadata"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// A Filter selects builds. The zero value selects all.
type Filter struct {
	Branches     []string // names in which * matches anything
	Commits      []string
	Creator      string // an id, a name or an e-mail address
	States       []string
	MetaData     map[string]string
	CreatedFrom  time.Time
	CreatedTo    time.Time // exclusive
	FinishedFrom time.Time
	HidePaused   bool // excludes builds that wait only for paused queues
}

// Hidden reports whether the filter uses what visitors cannot see. For them it matches nothing.
func (f Filter) Hidden() bool { return f.Creator != "" || len(f.MetaData) > 0 || f.HidePaused }

// restrict limits a statement to the builds b that match the filter.
func (f Filter) restrict(q *db.Q, s *db.Statement) {
	if len(f.Branches) > 0 {
		var either []string
		for _, branch := range f.Branches {
			if strings.Contains(branch, "*") {
				either = append(either, `b.branch LIKE `+s.Arg(strings.ReplaceAll(db.Like(branch), "*", "%"))+` ESCAPE '\'`)
			} else {
				either = append(either, `b.branch = `+s.Arg(branch))
			}
		}
		s.And("(" + strings.Join(either, " OR ") + ")")
	}
	if len(f.Commits) > 0 {
		s.WhereIn(q, "b.commit_name", f.Commits)
	}
	if len(f.States) > 0 {
		s.WhereIn(q, "b.state", f.States)
	}
	if id, ok := core.ParseID(f.Creator); ok {
		s.Where("b.creator_id = %s", id)
	} else if f.Creator != "" {
		s.Where("b.creator_id IN (SELECT id FROM users WHERE email = %s OR name = %s)", strings.ToLower(f.Creator), f.Creator)
	}
	if !f.CreatedFrom.IsZero() {
		s.Where("b.created_at >= %s", db.Micros(f.CreatedFrom))
	}
	if !f.CreatedTo.IsZero() {
		s.Where("b.created_at < %s", db.Micros(f.CreatedTo))
	}
	if !f.FinishedFrom.IsZero() {
		s.Where("b.finished_at >= %s", db.Micros(f.FinishedFrom))
	}
	if f.HidePaused {
		s.And(`NOT (
			EXISTS (SELECT 1 FROM jobs j WHERE j.build_id = b.id AND ` + waitsForPausedQueue + `)
			AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.build_id = b.id AND ` + movable + ` AND NOT ` + waitsForPausedQueue + `))`)
	}
}

// An order sorts a list of builds b. join adds the tables that it needs.
type order struct{ join, by string }

// orderWithMetaData limits a statement to builds in a scope that have the meta-data of the filter, and returns the
// order in which they are found; without meta-data, the other order.
func (f Filter) orderWithMetaData(q *db.Q, s *db.Statement, scope metadata.Scope, other order) order {
	if len(f.MetaData) == 0 {
		return other
	}
	join, orderBy := metadata.Restrict(q, s, scope, f.MetaData)
	return order{join: join, by: orderBy}
}

// movable holds for a job j that waits for nothing in its own build, only for an agent, a person or a slot.
const movable = `j.state IN ('blocked', 'limiting', 'limited', 'platform_limiting', 'platform_limited',
				'scheduled', 'assigned', 'accepted', 'running', 'canceling', 'timing_out')`

// waitsForPausedQueue holds for a job j that would be dispatched if its queue were not paused.
const waitsForPausedQueue = `(j.state = 'scheduled' AND EXISTS (
				SELECT 1 FROM queues pq WHERE pq.id = j.queue_id AND pq.dispatch_paused_at IS NOT NULL))`
