package flow

import (
	"time"

	"stackyard/internal/platform/core"
)

// A job has one holder: the agent that it is assigned to. The holder reports the events of this file. Each
// takes the reporting agent as holder, or "" when a stack or the clock is the source. Reports of other agents
// are rejected, so that an agent that was lost and comes back cannot affect the new holder. A repeated report
// of the holder, sent because it missed the response, changes nothing.

// repeatWindow is how long after the end of a job its holder may repeat the final report.
const repeatWindow = 5 * time.Minute

// Assign assigns a scheduled job to an agent.
func (r *Run) Assign(jobID, agentID string) error {
	return r.event(jobID, func(j *Job) error { return r.assign(j, agentID, Scheduled) })
}

// An Offer pairs a job with the agent to assign it to.
type Offer struct{ JobID, AgentID string }

// Offer assigns scheduled jobs to agents. It returns the offers that succeeded; jobs that have moved since are
// skipped.
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

// Acquire assigns a scheduled job to an agent and accepts it. It also accepts a job that is already assigned to
// the agent.
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

// Return schedules a job again that its agent did not accept in time.
func (r *Run) Return(jobID, holder string) error {
	return r.holderEvent(jobID, holder, Scheduled, Assigned)
}

// Accept reports that the agent accepted the job.
func (r *Run) Accept(jobID, holder string) error {
	return r.holderEvent(jobID, holder, Accepted, Assigned)
}

// Start reports that the agent started the job.
func (r *Run) Start(jobID, holder string) error {
	return r.holderEvent(jobID, holder, Running, Accepted)
}

// holderEvent is the event that moves a command job from one of the states to another, reported by its holder.
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

// checkHolder returns an error if holder is an agent other than the job's.
func (j *Job) checkHolder(holder string) error {
	if holder != "" && holder != j.AgentID {
		return core.Errorf(core.Unprocessable, "The job is not assigned to this agent")
	}
	return nil
}

// isRepeat reports whether exit repeats the final report of a job that has ended.
func (r *Run) isRepeat(j *Job, exit Exit) bool {
	if !j.State.Ended() || j.ExitStatus == nil || r.now.Sub(j.FinishedAt) > repeatWindow {
		return false
	}
	return *j.ExitStatus == exit.Status || promiseOverrides(j, exit.Status)
}
