package flow

import (
	"time"

	"stackyard/internal/platform/core"
)

// A job has one holder: the agent that it was offered to. The events of this file are told by the
// holder. Each takes who tells: an agent, or nobody ("") when a stack or the clock does. What an agent
// tells of a job that is not its own is refused, so that whoever was thought lost and comes back cannot
// disturb the one that has the job by now. What the holder tells twice, because it did not hear the
// answer, changes nothing the second time.

// repeatWindow is how long after the end of a job its holder may tell again how it ended.
const repeatWindow = 5 * time.Minute

// Assign: a scheduled job is offered to an agent.
func (r *Run) Assign(jobID, agentID string) error {
	return r.event(jobID, func(j *Job) error { return r.assign(j, agentID, Scheduled) })
}

// An Offer names a job and the agent that it is offered to.
type Offer struct{ JobID, AgentID string }

// Offer: scheduled jobs are offered to agents. Those that have moved meanwhile are left out of what is
// returned.
func (r *Run) Offer(offers []Offer) (offered []Offer, err error) {
	ids := make([]string, len(offers))
	for i, o := range offers {
		ids[i] = o.JobID
	}
	if err := r.fetchJobsByID(ids); err != nil {
		return nil, err
	}
	for _, o := range offers {
		j := r.jobs[o.JobID]
		if j == nil || j.Type != Script || j.State != Scheduled {
			continue
		}
		if err := r.assign(j, o.AgentID, Scheduled); err != nil {
			return nil, err
		}
		offered = append(offered, o)
	}
	return offered, r.conclude()
}

func (r *Run) assign(j *Job, agentID string, from ...JobState) error {
	if err := j.checkMove(Assigned, Script, from...); err != nil {
		return err
	}
	j.AgentID = agentID
	return r.move(j, Assigned)
}

// Acquire: an agent takes a job that is scheduled, or offered to it.
func (r *Run) Acquire(jobID, agentID string) error {
	return r.event(jobID, func(j *Job) error {
		if j.AgentID != agentID {
			if err := r.assign(j, agentID, Scheduled); err != nil {
				return err
			}
		}
		return r.moveByHolder(j, agentID, Accepted, Assigned)
	})
}

// Return: an agent did not accept in time; the job is scheduled again.
func (r *Run) Return(jobID, holder string) error {
	return r.holderEvent(jobID, holder, Scheduled, Assigned)
}

// Accept: the agent took the job.
func (r *Run) Accept(jobID, holder string) error {
	return r.holderEvent(jobID, holder, Accepted, Assigned)
}

// Start: the agent began to run the job.
func (r *Run) Start(jobID, holder string) error {
	return r.holderEvent(jobID, holder, Running, Accepted)
}

// holderEvent is the event that a command job comes from one of some states into another, as its holder tells.
func (r *Run) holderEvent(jobID, holder string, to JobState, from ...JobState) error {
	return r.event(jobID, func(j *Job) error { return r.moveByHolder(j, holder, to, from...) })
}

func (r *Run) moveByHolder(j *Job, holder string, to JobState, from ...JobState) error {
	if err := j.checkHolder(holder); err != nil {
		return err
	}
	if holder != "" && j.State == to {
		return nil
	}
	if err := j.checkMove(to, Script, from...); err != nil {
		return err
	}
	return r.move(j, to)
}

// checkHolder returns an error when an agent that is not the job's holder has something to tell of it.
func (j *Job) checkHolder(holder string) error {
	if holder != "" && holder != j.AgentID {
		return core.Errorf(core.Unprocessable, "The job is not assigned to this agent")
	}
	return nil
}

// isRepeat reports whether the holder of a job that has ended tells its end again.
func (r *Run) isRepeat(j *Job, exit Exit) bool {
	if !j.State.Ended() || j.ExitStatus == nil || r.now.Sub(j.FinishedAt) > repeatWindow {
		return false
	}
	return *j.ExitStatus == exit.Status || promiseOverrides(j, exit.Status)
}
