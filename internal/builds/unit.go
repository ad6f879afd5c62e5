package builds

import (
	"errors"
	"slices"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/definition"
	"stackyard/internal/flow"
)

// A unit is one unit of work on one build, within a transaction that holds the build's lock.
type unit struct {
	q     *db.Q
	now   time.Time
	build *Build
	run   *flow.Run
	plan  plan
	then  *followUps
	// positions are those of the steps that the unit adds, by id.
	positions map[string]string
	// groups are concurrency groups to look at besides those that flow names.
	groups []string
	// grace is how long agents have to stop the jobs that the unit cancels.
	grace time.Duration
}

// open begins a unit of work on a build of an organization.
func (s *Service) open(q *db.Q, orgID, buildID string, then *followUps) (*unit, error) {
	if err := q.Lock("builds", buildID); err != nil {
		return nil, err
	}
	b, err := byID(q, orgID, buildID)
	if err != nil {
		return nil, err
	}
	if b.TriggeredBy != "" {
		if b.Orphaned, err = orphaned(q, b.TriggeredBy); err != nil {
			return nil, err
		}
	}
	return newUnit(q, b, s.clock(), then), nil
}

// orphaned reports whether a trigger job waits no more for the build that it started, because its own
// was canceled.
func orphaned(q *db.Q, triggerID string) (bool, error) {
	step, err := db.One(q, scanFlowStep, selectFlowStep+`
		JOIN jobs j ON j.step_id = s.id
		JOIN builds b ON b.id = j.build_id
		WHERE j.id = $1 AND b.state IN ($2, $3)`, triggerID, flow.BuildCanceling, flow.BuildCanceled)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	return err == nil && !step.Async, err
}

func newUnit(q *db.Q, b *Build, now time.Time, then *followUps) *unit {
	return &unit{
		q:         q,
		now:       now,
		build:     b,
		run:       flow.New(flowStore{q, b.ID}, &b.Build, now, core.NewID),
		then:      then,
		positions: map[string]string{},
		grace:     stopGrace,
	}
}

// close writes what the unit has changed, and lets jobs take the places in concurrency groups that have
// become free.
func (u *unit) close() error {
	changes := u.run.Changes()
	groups := slices.Sorted(slices.Values(slices.Concat(changes.Groups, u.groups)))
	// Before any job is written: who holds a group's lock may move jobs of other builds.
	for _, group := range groups {
		if err := u.q.LockName("concurrency group " + u.build.OrganizationID + " " + group); err != nil {
			return err
		}
	}
	if err := u.save(changes); err != nil {
		return err
	}
	u.q.Announce("build:" + u.build.ID)
	u.then.note(u.build, changes)
	for _, group := range groups {
		if err := u.admit(group); err != nil {
			return err
		}
	}
	return nil
}

// slotStates is the condition of the index of jobs that hold a place in their concurrency group, in its
// own words: see flow.JobState.HoldsSlot.
const slotStates = `j.concurrency_group IS NOT NULL AND j.state IN ('scheduled', 'reserved', 'assigned', 'accepted', 'running', 'canceling', 'timing_out')`

// admit schedules the jobs of a concurrency group, of this build and of others, that there is place for.
// Those of this build that came to ask and have no place wait.
func (u *unit) admit(group string) error {
	org := u.build.OrganizationID
	var holders, most int
	err := u.q.QueryRow(`
		SELECT COUNT(*) FROM jobs j WHERE j.organization_id = $1 AND j.concurrency_group = $2 AND `+slotStates, org, group).Scan(&holders)
	if err != nil {
		return err
	}
	err = u.q.QueryRow(`
		SELECT COALESCE(MAX(concurrency_limit), 0) FROM jobs WHERE organization_id = $1 AND concurrency_group = $2 AND queued`, org, group).Scan(&most)
	if err != nil {
		return err
	}
	queue, err := queueOf(u.q, org, group, max(most-holders, 0))
	if err != nil {
		return err
	}
	asked := make([]flow.Queued, len(queue))
	buildOf := make(map[string]string, len(queue))
	for i, q := range queue {
		asked[i], buildOf[q.JobID] = q.Queued, q.buildID
	}
	own := flow.New(flowStore{u.q, u.build.ID}, &u.build.Build, u.now, core.NewID)
	for _, id := range flow.Admit(holders, asked) {
		if buildOf[id] == u.build.ID {
			err = own.Schedule(id)
		} else {
			err = u.scheduleElsewhere(id, buildOf[id])
		}
		if err != nil {
			return err
		}
	}
	refused, err := limiting(u.q, u.build.ID, group)
	if err != nil {
		return err
	}
	admitted := make(map[string]bool)
	for _, change := range own.Changes().Jobs {
		admitted[change.Job.ID] = true
	}
	for _, id := range refused {
		if !admitted[id] {
			if err := own.Limit(id); err != nil {
				return err
			}
		}
	}
	return u.save(own.Changes())
}

type queuedJob struct {
	flow.Queued
	buildID string
}

// queueOf returns the jobs in the queue of a concurrency group that can matter when a number of places
// are free, in the order that flow.Admit asks for.
func queueOf(q *db.Q, orgID, group string, free int) ([]queuedJob, error) {
	const columns = `
		SELECT j.id AS id, j.build_id AS build_id, j.state AS state, j.concurrency_limit AS concurrency_limit,
			j.concurrency_method AS method, j.priority AS priority, j.scheduled_at AS scheduled_at, j.position AS position
		FROM jobs j
		WHERE j.organization_id = $1 AND j.concurrency_group = $2 AND j.queued`
	const order = `scheduled_at, build_id, CASE state WHEN 'waiting' THEN 1 ELSE 0 END, position, id`
	return db.All(q, func(scan db.Scan) (j queuedJob, err error) {
		var state flow.JobState
		err = scan(&j.JobID, &j.buildID, &state, &j.Limit, &j.Method, &j.Priority)
		j.Waiting = state == flow.Waiting
		return j, err
	}, `
		SELECT id, build_id, state, concurrency_limit, method, priority FROM (
			SELECT * FROM (`+columns+` AND j.concurrency_method = $3 ORDER BY `+order+` LIMIT $5) AS a
			UNION ALL
			SELECT * FROM (`+columns+` AND j.concurrency_method = $4 AND j.state <> 'waiting' ORDER BY priority DESC, `+order+` LIMIT $5) AS b
		) AS c
		ORDER BY `+order, orgID, group, definition.Ordered, definition.Eager, free)
}

// limiting returns the jobs of a build that have just come to ask for a place in a concurrency group.
func limiting(q *db.Q, buildID, group string) ([]string, error) {
	return db.All(q, scanID, `
		SELECT id FROM jobs
		WHERE build_id = $1 AND concurrency_group = $2 AND state = $3
		ORDER BY position, id`, buildID, group, flow.Limiting)
}

func scanID(scan db.Scan) (id string, err error) { return id, scan(&id) }

// scheduleElsewhere schedules a limited job of another build. That build's lock is not taken, since its
// holder may wait for this concurrency group; the move changes nothing but the job, and whoever has read
// the job before finds out by [errMoved].
func (u *unit) scheduleElsewhere(jobID, buildID string) error {
	b, err := byID(u.q, u.build.OrganizationID, buildID)
	if err != nil {
		return err
	}
	other := newUnit(u.q, b, u.now, u.then)
	if err := other.run.Schedule(jobID); err != nil {
		return err
	}
	moved := other.run.Changes().Jobs
	if err := other.updateJobs(moved); err != nil {
		return err
	}
	u.q.Announce("build:" + buildID)
	return other.watch(moved)
}
