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
	return []effect{(*unit).saveHolders, (*unit).updateRunnable}
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

// saveHolders writes the agents of jobs that agents acquired. Other columns are written for many jobs at once, but each
// of these jobs has its own agent.
func (u *unit) saveHolders(changed []flow.JobChange) error {
	var rows [][]any
	for _, c := range changed {
		j := c.Job
		if j.Type == flow.Script && j.State.Held() && !c.From.Held() && !u.isAssignment(c) {
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
	return u.q.Later(`
		WITH holders (job_id, agent_id) AS (`+values+`)
		UPDATE jobs SET agent_id = holders.agent_id FROM holders WHERE jobs.id = holders.job_id`, args...)
}

// updateRunnable keeps the rows of package dispatch in sync: exactly the scheduled command jobs have one.
func (u *unit) updateRunnable(changed []flow.JobChange) error {
	var added []*flow.Job
	var removed, assigned []string
	for _, c := range changed {
		switch {
		case c.Job.Type != flow.Script:
		case c.Job.State == flow.Scheduled:
			added = append(added, c.Job)
		case u.isAssignment(c):
			assigned = append(assigned, c.Job.ID)
		case c.From == flow.Scheduled:
			removed = append(removed, c.Job.ID)
		}
	}
	if err := dispatch.Remove(u.q, removed...); err != nil {
		return err
	}
	if err := dispatch.Take(u.q, errMoved, assigned...); err != nil {
		return err
	}
	return u.addRunnable(added)
}

// addRunnable copies scheduled jobs to the rows of package dispatch: new ones out of memory.
func (u *unit) addRunnable(jobs []*flow.Job) error {
	var added []dispatch.Runnable
	var others []string
	for _, j := range jobs {
		p, planned := u.plan.Jobs[j.ID]
		if !planned {
			others = append(others, j.ID)
			continue
		}
		added = append(added, dispatch.Runnable{
			JobID: j.ID, OrganizationID: u.build.OrganizationID, BuildID: u.build.ID, PipelineID: u.build.PipelineID, QueueID: p.QueueID,
			RuleSet: dispatch.RuleSetOf(p.Agents).ID, Priority: p.Priority, ScheduledAt: u.build.ScheduledAt, StepKey: u.keys[j.StepID],
		})
	}
	if err := dispatch.Add(u.q, added); err != nil {
		return err
	}
	return makeRunnable(u.q, others)
}

// makeRunnable copies the rows of scheduled jobs.
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
