package builds

import (
	"errors"
	"slices"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
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
	// observers are told of the moves of jobs.
	observers []Observer
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
	return s.newUnit(q, b, s.clock(), then), nil
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

func (s *Service) newUnit(q *db.Q, b *Build, now time.Time, then *followUps) *unit {
	u := newUnit(q, b, now, then)
	u.observers = s.observers
	return u
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
	asking := limiting(changes)
	for _, group := range groups {
		if err := u.admit(group, asking); err != nil {
			return err
		}
	}
	return nil
}

// limiting returns the jobs that have just come to ask for a place in their concurrency groups.
func limiting(changes flow.Changes) (ids []string) {
	for _, change := range changes.Jobs {
		if change.Job.State == flow.Limiting {
			ids = append(ids, change.Job.ID)
		}
	}
	return ids
}

// slotStates is the condition of the index of jobs that hold a place in their concurrency group, in its
// own words: see flow.JobState.HoldsSlot.
const slotStates = `j.concurrency_group IS NOT NULL AND j.state IN ('scheduled', 'reserved', 'assigned', 'accepted', 'running', 'canceling', 'timing_out')`

// admit schedules the jobs of a concurrency group, of this build and of others, that there is place for.
// Those of this build that are asking, for a place in whatever group, and have none wait.
func (u *unit) admit(group string, asking []string) error {
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
	inLine := make([]flow.Queued, len(queue))
	buildOf := make(map[string]string, len(queue))
	for i, q := range queue {
		inLine[i], buildOf[q.JobID] = q.Queued, q.buildID
	}
	own := flow.New(flowStore{u.q, u.build.ID}, &u.build.Build, u.now, core.NewID)
	for _, id := range flow.Admit(holders, inLine) {
		if buildOf[id] == u.build.ID {
			err = own.Schedule(id)
		} else {
			err = u.scheduleElsewhere(id, buildOf[id])
		}
		if err != nil {
			return err
		}
	}
	asked, err := membersOf(u.q, group, asking)
	if err != nil {
		return err
	}
	admitted := make(map[string]bool)
	for _, change := range own.Changes().Jobs {
		admitted[change.Job.ID] = true
	}
	for _, id := range asked {
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

// lineOrder is the order of the jobs j of a concurrency group that flow.Admit asks for, in the words of the
// index.
const lineOrder = `j.queue_place, CASE j.state WHEN 'waiting' THEN 1 ELSE 0 END, j.build_id, j.position, j.id`

// queueOf returns the jobs in the queue of a concurrency group that can matter when a number of places
// are free: the first in line, and the eager ones of the highest priority.
func queueOf(q *db.Q, orgID, group string, free int) ([]queuedJob, error) {
	const queued = `
			SELECT j.id, j.build_id, j.position, j.queue_place, j.state, j.concurrency_limit, j.concurrency_method, j.priority
			FROM jobs j
			WHERE j.organization_id = $1 AND j.concurrency_group = $2 AND j.queued`
	return db.All(q, func(scan db.Scan) (j queuedJob, err error) {
		var state flow.JobState
		err = scan(&j.JobID, &j.buildID, &j.Place, &state, &j.Limit, &j.Method, &j.Priority)
		j.Waiting = state == flow.Waiting
		return j, err
	}, `
		SELECT id, build_id, queue_place, state, concurrency_limit, concurrency_method, priority FROM (
			SELECT * FROM (`+queued+` ORDER BY `+lineOrder+` LIMIT $3) AS first
			UNION
			SELECT * FROM (`+queued+` AND j.concurrency_method = 'eager'
			ORDER BY j.priority DESC, j.queue_place, j.build_id, j.position, j.id LIMIT $3) AS eager
		) AS either
		ORDER BY build_id, position, id`, orgID, group, free)
}

// membersOf returns those of some jobs that belong to a concurrency group.
func membersOf(q *db.Q, group string, jobIDs []string) ([]string, error) {
	if len(jobIDs) == 0 {
		return nil, nil
	}
	in, ids := q.In("id", 2, jobIDs)
	return db.All(q, scanID, `SELECT id FROM jobs WHERE concurrency_group = $1 AND `+in+` ORDER BY position, id`, group, ids)
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
	other.observers = u.observers
	if err := other.run.Schedule(jobID); err != nil {
		return err
	}
	moved := other.run.Changes().Jobs
	if err := other.updateJobs(moved); err != nil {
		return err
	}
	u.q.Announce("build:" + buildID)
	return other.tellMoves(moved)
}
