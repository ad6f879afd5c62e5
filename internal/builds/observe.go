package builds

import (
	"strconv"
	"strings"

	"stackyard/internal/db"
	"stackyard/internal/dispatch"
	"stackyard/internal/flow"
)

// An Observer is told of jobs of a build that have moved, new ones included, within the transaction in
// which they do, which its error undoes. In one transaction it may be told several times.
type Observer func(q *db.Q, b *Build, moved []flow.JobChange) error

// Observe has an observer told of every move of every job from now on. It is called before there are
// any.
func (s *Service) Observe(o Observer) { s.observers = append(s.observers, o) }

// tellMoves lets all know that go by the states of jobs: those who hand jobs to agents, the clock, and
// observers. The jobs are written.
func (u *unit) tellMoves(changes []flow.JobChange) error {
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

// queue keeps the queues of agents true: in them are the command jobs that are scheduled, and no others.
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

// hold writes the holders of jobs that have come into the hands of agents. That is apart from what else
// changes of them, which many have in common.
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
