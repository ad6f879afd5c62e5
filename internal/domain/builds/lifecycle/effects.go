package lifecycle

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// An Effect updates what depends on the states of jobs. It is called with the jobs of a build that changed state, new
// ones included, after they were written and inside their transaction; an error rolls it back. It can be called
// several times in one transaction.
type Effect func(q *db.Q, b *builds.Build, changed []flow.JobChange) error

// AddEffect appends an effect. Effects run in the order in which they were added, after those of this package. Call
// it before the first change.
func (s *Service) AddEffect(e Effect) {
	s.effects = append(s.effects, func(u *unit, changed []flow.JobChange) error { return e(u.q, u.build, changed) })
}

// An effect is an Effect that needs the unit of work.
type effect func(u *unit, changed []flow.JobChange) error

// ownEffects are the effects of this package, in order.
func ownEffects() []effect {
	return []effect{(*unit).saveHolders, (*unit).updateRunnable, (*unit).updateTimers}
}

// applyEffects runs all effects for the jobs whose states changed.
func (u *unit) applyEffects(changes []flow.JobChange) error {
	var changed []flow.JobChange
	for _, c := range changes {
		if c.Job.State != c.From {
			changed = append(changed, c)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	for _, apply := range u.effects {
		if err := apply(u, changed); err != nil {
			return err
		}
	}
	return nil
}

// saveHolders writes the agents of newly assigned jobs. Other columns are written for many jobs at once, but each of
// these jobs has its own agent.
func (u *unit) saveHolders(changed []flow.JobChange) error {
	var rows [][]any
	for _, c := range changed {
		j := c.Job
		if j.Type == flow.Script && j.State.Held() && !c.From.Held() {
			rows = append(rows, []any{j.ID, j.AgentID})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	values, args, err := u.q.Values(1, []string{"text", "text"}, rows)
	if err != nil {
		return err
	}
	_, err = u.q.Exec(`
		WITH holders (job_id, agent_id) AS (`+values+`)
		UPDATE jobs SET agent_id = holders.agent_id FROM holders WHERE jobs.id = holders.job_id`, args...)
	return err
}

// updateRunnable keeps the rows of package dispatch in sync: exactly the scheduled command jobs have one.
func (u *unit) updateRunnable(changed []flow.JobChange) error {
	var added, removed []string
	for _, c := range changed {
		switch {
		case c.Job.Type != flow.Script:
		case c.Job.State == flow.Scheduled:
			added = append(added, c.Job.ID)
		case c.From == flow.Scheduled:
			removed = append(removed, c.Job.ID)
		}
	}
	if err := dispatch.Remove(u.q, removed...); err != nil {
		return err
	}
	return makeRunnable(u.q, added)
}

// makeRunnable copies scheduled jobs to the rows of package dispatch.
func makeRunnable(q *db.Q, jobIDs []string) error {
	if len(jobIDs) == 0 {
		return nil
	}
	in, arg := q.In("j.id", 1, jobIDs)
	return dispatch.Put(q, `
		SELECT j.id, j.organization_id, j.build_id, b.pipeline_id, j.queue_id, COALESCE(j.rule_set, ''), j.priority, j.scheduled_at, r.agent_id, s.key
		FROM jobs j
		JOIN builds b ON b.id = j.build_id
		JOIN steps s ON s.id = j.step_id
		LEFT JOIN jobs r ON r.id = j.retry_of
		WHERE `+in, arg)
}
