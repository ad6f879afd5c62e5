package builds

import (
	"strconv"
	"strings"

	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// An Observer is called with the jobs of a build that changed state, new ones included, inside the transaction;
// an error rolls it back. It can be called several times in one transaction.
type Observer func(q *db.Q, b *Build, moved []flow.JobChange) error

// Observe registers an observer of job state changes. Call it before there are any.
func (s *Service) Observe(o Observer) { s.observers = append(s.observers, o) }

// applyEffects updates everything that depends on job states: queues, timers and observers. The jobs are
// already written.
func (u *unit) applyEffects(changes []flow.JobChange) error {
	var moved []flow.JobChange
	for _, change := range changes {
		if change.Job.State != change.From {
			moved = append(moved, change)
		}
	}
	if len(moved) == 0 {
		return nil
	}
	if err := u.hold(moved); err != nil {
		return err
	}
	if err := u.queue(moved); err != nil {
		return err
	}
	if err := u.watch(moved); err != nil {
		return err
	}
	if err := u.noteAccepted(moved); err != nil {
		return err
	}
	for _, tell := range u.observers {
		if err := tell(u.q, u.build, moved); err != nil {
			return err
		}
	}
	return nil
}

// queue keeps runnable rows in sync: exactly the scheduled command jobs have one.
func (u *unit) queue(moved []flow.JobChange) error {
	var came, left []string
	for _, change := range moved {
		switch {
		case change.Job.Type != flow.Script:
		case change.Job.State == flow.Scheduled:
			came = append(came, change.Job.ID)
		case change.From == flow.Scheduled:
			left = append(left, change.Job.ID)
		}
	}
	if err := dispatch.Remove(u.q, left...); err != nil {
		return err
	}
	return dispatch.Put(u.q, came...)
}

// hold writes the holders of newly assigned jobs. It is separate from the other changes, which many jobs share.
func (u *unit) hold(moved []flow.JobChange) error {
	var holders []flow.Offer
	for _, change := range moved {
		j := change.Job
		if j.Type == flow.Script && j.State.Held() && !change.From.Held() {
			holders = append(holders, flow.Offer{JobID: j.ID, AgentID: j.AgentID})
		}
	}
	for some := range padded(holders) {
		args := make([]any, 0, 2*len(some))
		for _, h := range some {
			args = append(args, h.JobID, h.AgentID)
		}
		if _, err := u.q.Exec(holdText(len(some)), args...); err != nil {
			return err
		}
	}
	return nil
}

func holdText(rows int) string {
	values := make([]string, rows)
	for i := range values {
		values[i] = "($" + strconv.Itoa(2*i+1) + ", $" + strconv.Itoa(2*i+2) + ")"
	}
	return `
		WITH holders (job_id, agent_id) AS (VALUES ` + strings.Join(values, ", ") + `)
		UPDATE jobs SET agent_id = holders.agent_id FROM holders WHERE jobs.id = holders.job_id`
}
