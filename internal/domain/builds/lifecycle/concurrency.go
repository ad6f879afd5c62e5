package lifecycle

import (
	"errors"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// admit schedules jobs of a concurrency group, of this build and of others, while it has free slots. Those of the
// candidates that wanted a slot in this group and got none wait.
func (u *unit) admit(group string, candidates []string) error {
	taken, err := slotsTaken(u.q, u.build.OrganizationID, group)
	if err != nil {
		return err
	}
	limit, err := largestLimit(u.q, u.build.OrganizationID, group)
	if err != nil {
		return err
	}
	for admitted := 1; admitted > 0 && taken < limit; taken += admitted {
		if admitted, err = u.admitFirst(group, taken, limit-taken); err != nil {
			return err
		}
	}
	return u.limit(group, candidates)
}

// admitFirst schedules the first jobs in the queue of a concurrency group that fit into its free slots, and returns
// how many.
func (u *unit) admitFirst(group string, taken, free int) (int, error) {
	queue, err := queueOf(u.q, u.build.OrganizationID, group, taken, free)
	if err != nil {
		return 0, err
	}
	first := make([]flow.QueuedJob, len(queue))
	buildOf := make(map[string]string, len(queue))
	for i, q := range queue {
		first[i], buildOf[q.JobID] = q.QueuedJob, q.buildID
	}
	own := flow.New(builds.FlowStore(u.q, u.build.ID), &u.build.Build, u.now, core.NewID)
	admitted := flow.Admit(taken, first)
	for _, id := range admitted {
		if buildOf[id] == u.build.ID {
			err = own.Schedule(id)
		} else {
			err = u.scheduleElsewhere(id, buildOf[id])
		}
		if err != nil {
			return 0, err
		}
	}
	return len(admitted), u.save(own.Changes())
}

// scheduleElsewhere schedules a limited job of another build without taking that build's lock, because its holder may
// be waiting for this concurrency group. Nothing but the job changes; a transaction that has read the job before
// fails with [errMoved] and is retried.
func (u *unit) scheduleElsewhere(jobID, buildID string) error {
	// The pipeline may be deleted: its job releases the slot when it is removed.
	b, err := builds.WithDeleted(u.q, buildID)
	if err != nil {
		return err
	}
	other := newUnit(u.q, newKeptBuild(b), u.now, u.then)
	other.effects, other.timer, other.settings = u.effects, u.timer, u.settings
	if err := other.run.Schedule(jobID); err != nil {
		return err
	}
	changes := other.run.Changes()
	if err := other.updateJobs(changes.Jobs); err != nil {
		return err
	}
	u.q.Announce(b.Topics()...)
	if err := other.applyEffects(changes.Jobs); err != nil {
		return err
	}
	return other.noteEvents(flow.Changes{Jobs: changes.Jobs})
}

// limit makes those of the candidates wait that wanted a slot in a concurrency group and got none.
func (u *unit) limit(group string, candidates []string) error {
	if len(candidates) == 0 {
		return nil
	}
	in, ids := u.q.In("id", 3, candidates)
	refused, err := db.Strings(u.q, `
		SELECT id FROM jobs
		WHERE concurrency_group = $1 AND state = $2 AND `+in+`
		ORDER BY position, id`, group, flow.Limiting, ids)
	if err != nil {
		return err
	}
	own := flow.New(builds.FlowStore(u.q, u.build.ID), &u.build.Build, u.now, core.NewID)
	for _, id := range refused {
		if err := own.Limit(id); err != nil {
			return err
		}
	}
	return u.save(own.Changes())
}

// limiting returns the jobs that now want a slot in their concurrency groups.
func limiting(changes flow.Changes) (ids []string) {
	for _, change := range changes.Jobs {
		if change.Job.State == flow.Limiting {
			ids = append(ids, change.Job.ID)
		}
	}
	return ids
}

// slotStates is the condition of the index of jobs that occupy a slot of their concurrency group: the states of
// flow.JobState.HoldsSlot.
const slotStates = `j.concurrency_group IS NOT NULL AND j.state IN ('scheduled', 'reserved', 'assigned', 'accepted', 'running', 'canceling', 'timing_out')`

// slotsTaken returns how many jobs of a concurrency group occupy a slot.
func slotsTaken(q *db.Q, orgID, group string) (taken int, err error) {
	err = q.QueryRow(`
		SELECT COUNT(*) FROM jobs j WHERE j.organization_id = $1 AND j.concurrency_group = $2 AND `+slotStates, orgID, group).Scan(&taken)
	return taken, err
}

// largestLimit returns the largest limit of the jobs queued in a concurrency group, 0 when none are.
func largestLimit(q *db.Q, orgID, group string) (limit int, err error) {
	err = q.QueryRow(`
		SELECT COALESCE(MAX(concurrency_limit), 0) FROM jobs WHERE organization_id = $1 AND concurrency_group = $2 AND queued`, orgID, group).Scan(&limit)
	return limit, err
}

type queuedJob struct {
	flow.QueuedJob
	buildID string
}

// queueOrder is the order of the queued jobs j of a concurrency group that flow.Admit expects. It is the expression
// of the index.
const queueOrder = `j.queue_place, CASE j.state WHEN 'waiting' THEN 1 ELSE 0 END, j.build_id, j.position, j.id`

// queueOf returns the jobs in the queue of a concurrency group that flow.Admit needs when a number of its slots is
// taken and a number is free.
func queueOf(q *db.Q, orgID, group string, taken, free int) ([]queuedJob, error) {
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
			SELECT * FROM (`+queued+` ORDER BY `+queueOrder+` LIMIT $4) AS first
			UNION
			SELECT * FROM (`+queued+` AND j.concurrency_method = 'eager' AND j.concurrency_limit > $3
			ORDER BY j.priority DESC, j.queue_place, j.build_id, j.position, j.id LIMIT $4) AS eager
		) AS either
		ORDER BY build_id, position, id`, orgID, group, taken, free)
}

// A Group is the concurrency group of a job and the job's place in it.
type Group struct {
	Name   string // empty: the job has no group
	Limit  int
	Active int // jobs of all builds that occupy a slot
	Ahead  int // queued jobs before this one
}

// GroupOf returns the concurrency group of a job, the zero Group when it has none.
func GroupOf(q *db.Q, j *builds.Job) (g Group, err error) {
	var queued bool
	err = q.QueryRow(`
		SELECT j.concurrency_group, j.concurrency_limit, j.queued FROM jobs j
		WHERE j.id = $1 AND j.concurrency_group IS NOT NULL`, j.ID).Scan(&g.Name, &g.Limit, &queued)
	if errors.Is(err, db.ErrNoRows) {
		return Group{}, nil
	}
	if err != nil {
		return Group{}, err
	}
	if g.Active, err = slotsTaken(q, j.OrganizationID, g.Name); err != nil || !queued {
		return g, err
	}
	err = q.QueryRow(`
		SELECT COUNT(*) FROM jobs j
		WHERE j.organization_id = $1 AND j.concurrency_group = $2 AND j.queued
			AND (`+queueOrder+`) < (SELECT `+queueOrder+` FROM jobs j WHERE j.id = $3)`,
		j.OrganizationID, g.Name, j.ID).Scan(&g.Ahead)
	return g, err
}
