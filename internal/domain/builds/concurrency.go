package builds

import (
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// admit schedules the jobs of a concurrency group, of this build and of others, that there is place for.
// Those that are asking, for a place in whatever group, and get none in this one wait.
func (u *unit) admit(group string, asking []string) error {
	holders, most, err := standing(u.q, u.build.OrganizationID, group)
	if err != nil {
		return err
	}
	for went := 1; went > 0 && holders < most; holders += went {
		if went, err = u.admitFirst(group, holders, most-holders); err != nil {
			return err
		}
	}
	return u.limit(group, asking)
}

// admitFirst schedules those of the first in the queue of a concurrency group that there is place for, and
// returns how many.
func (u *unit) admitFirst(group string, holders, free int) (int, error) {
	queue, err := queueOf(u.q, u.build.OrganizationID, group, holders, free)
	if err != nil {
		return 0, err
	}
	first := make([]flow.QueuedJob, len(queue))
	buildOf := make(map[string]string, len(queue))
	for i, q := range queue {
		first[i], buildOf[q.JobID] = q.QueuedJob, q.buildID
	}
	own := flow.New(flowStore{u.q, u.build.ID}, &u.build.Build, u.now, core.NewID)
	admitted := flow.Admit(holders, first)
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

// scheduleElsewhere schedules a limited job of another build. That build's lock is not taken, since its
// holder may wait for this concurrency group; the move changes nothing but the job, and whoever has read
// the job before finds out by [errMoved].
func (u *unit) scheduleElsewhere(jobID, buildID string) error {
	// Of a deleted pipeline too: its job gives the place back when it is removed.
	b, err := db.One(u.q, scanBuild, buildColumns+` FROM builds b`+buildJoins+` WHERE b.id = $1`, buildID)
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
	u.q.Announce(Topic(buildID))
	return other.applyEffects(moved)
}

// limit has those of some jobs wait that have asked for a place in a concurrency group and got none.
func (u *unit) limit(group string, asking []string) error {
	if len(asking) == 0 {
		return nil
	}
	in, ids := u.q.In("id", 3, asking)
	refused, err := db.All(u.q, scanID, `
		SELECT id FROM jobs
		WHERE concurrency_group = $1 AND state = $2 AND `+in+`
		ORDER BY position, id`, group, flow.Limiting, ids)
	if err != nil {
		return err
	}
	own := flow.New(flowStore{u.q, u.build.ID}, &u.build.Build, u.now, core.NewID)
	for _, id := range refused {
		if err := own.Limit(id); err != nil {
			return err
		}
	}
	return u.save(own.Changes())
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

// standing returns how many jobs of a concurrency group hold a place, and the largest limit of those in its
// queue.
func standing(q *db.Q, orgID, group string) (holders, most int, err error) {
	err = q.QueryRow(`
		SELECT COUNT(*) FROM jobs j WHERE j.organization_id = $1 AND j.concurrency_group = $2 AND `+slotStates, orgID, group).Scan(&holders)
	if err != nil {
		return 0, 0, err
	}
	err = q.QueryRow(`
		SELECT COALESCE(MAX(concurrency_limit), 0) FROM jobs WHERE organization_id = $1 AND concurrency_group = $2 AND queued`, orgID, group).Scan(&most)
	return holders, most, err
}

type queuedJob struct {
	flow.QueuedJob
	buildID string
}

// lineOrder is the order of the jobs j of a concurrency group that flow.Admit asks for, in the words of the
// index.
const lineOrder = `j.queue_place, CASE j.state WHEN 'waiting' THEN 1 ELSE 0 END, j.build_id, j.position, j.id`

// queueOf returns those in the queue of a concurrency group whom flow.Admit needs to know of when so many
// hold a place, and so many more places are free.
func queueOf(q *db.Q, orgID, group string, holders, free int) ([]queuedJob, error) {
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
			SELECT * FROM (`+queued+` ORDER BY `+lineOrder+` LIMIT $4) AS first
			UNION
			SELECT * FROM (`+queued+` AND j.concurrency_method = 'eager' AND j.concurrency_limit > $3
			ORDER BY j.priority DESC, j.queue_place, j.build_id, j.position, j.id LIMIT $4) AS eager
		) AS either
		ORDER BY build_id, position, id`, orgID, group, holders, free)
}

func scanID(scan db.Scan) (id string, err error) { return id, scan(&id) }
