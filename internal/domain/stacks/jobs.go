package stacks

import (
	"cmp"
	"context"
	"slices"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

const noJob = "No job found"

// A token lets an agent take one job.
type token struct {
	jobID     string
	text      string
	expiresAt time.Time
}

// The reasons why no token is issued for a job.
const (
	reasonNotFound    = "not_found"
	reasonNotReserved = "not_reserved"
	reasonCluster     = "other_cluster"
	reasonExpired     = "reservation_expired"
	reasonNotCommand  = "not_command_job"
)

// issue returns tokens for the jobs that a stack has reserved, and the reasons for the other jobs, by job.
func (s *Service) issue(ctx context.Context, t *identity.AgentToken, stack *Stack, jobIDs []string, lifetime time.Duration) ([]token, map[string]string, error) {
	now := s.clock()
	var reservedUntil map[string]time.Time
	var others map[string]job
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if reservedUntil, err = dispatch.ReservedBy(q, stack.OrganizationID, stack.ID, jobIDs); err != nil {
			return err
		}
		// Most jobs are reserved. The others are read only to find the reason.
		rest := slices.DeleteFunc(slices.Clone(jobIDs), func(id string) bool { return now.Before(reservedUntil[id]) })
		if len(rest) > 0 {
			others, err = readJobs(q, stack.OrganizationID, rest)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	tokens := make([]token, 0, len(jobIDs))
	refused := make(map[string]string)
	for _, id := range jobIDs {
		until := reservedUntil[id]
		if !now.Before(until) {
			j, ok := others[id]
			refused[id] = cmp.Or(j.refuseToken(ok, stack, now), reasonNotReserved) // the stack reserved it between the two reads
			continue
		}
		if end := now.Add(lifetime); end.Before(until) {
			until = end
		}
		tokens = append(tokens, token{id, s.agents.IssueAcquisition(t, stack.ID, id, until), until})
	}
	s.activity.recordTokens(stack.Key, tokens, now)
	return tokens, refused, nil
}

// A job is a job with its reservation.
type job struct {
	builds.StackJob
	reservation dispatch.Reservation
}

// readJobs returns jobs of an organization, by id. Unknown jobs and those of hosted queues are left out.
//
// It reads reservations before jobs: a job that an agent takes between the two reads has the state accepted,
// and never looks as if it had lost its reservation.
func readJobs(q *db.Q, orgID string, jobIDs []string) (map[string]job, error) {
	reservations, err := dispatch.Reservations(q, orgID, jobIDs)
	if err != nil {
		return nil, err
	}
	found, err := builds.StackJobs(q, orgID, jobIDs)
	if err != nil {
		return nil, err
	}
	jobs := make(map[string]job, len(found))
	for id, j := range found {
		jobs[id] = job{j, reservations[id]}
	}
	return jobs, nil
}

// refuseToken returns the reason why a stack gets no token for the job, or "".
func (j job) refuseToken(found bool, stack *Stack, now time.Time) string {
	switch {
	case !found:
		return reasonNotFound
	case j.Type != flow.Script:
		return reasonNotCommand
	case j.ClusterID != stack.ClusterID:
		return reasonCluster
	case j.reservation.StackID != stack.ID:
		return reasonNotReserved
	case !j.reservation.Live(now):
		return reasonExpired
	}
	return ""
}

// apiState returns the job's state as the stacks API names it.
func (j job) apiState(now time.Time) string {
	if j.State == flow.Scheduled && j.reservation.Live(now) {
		return "reserved"
	}
	return string(j.State)
}

// states returns the states of jobs of the stack's cluster, by job.
func (s *Service) states(ctx context.Context, stack *Stack, jobIDs []string) (map[string]string, error) {
	var jobs map[string]job
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		jobs, err = readJobs(q, stack.OrganizationID, jobIDs)
		return err
	})
	now := s.clock()
	states := make(map[string]string, len(jobs))
	for id, j := range jobs {
		if j.ClusterID == stack.ClusterID {
			states[id] = j.apiState(now)
		}
	}
	return states, err
}

// checkVisible returns a NotFound error for a job that the stack cannot run: it is not a command job of the
// stack's cluster, it has ended or is being canceled, or an agent that the stack did not start has it.
func (s *Service) checkVisible(q *db.Q, stack *Stack, jobID string) error {
	jobs, err := readJobs(q, stack.OrganizationID, []string{jobID})
	if err != nil {
		return err
	}
	j, visible := jobs[jobID]
	visible = visible && j.ClusterID == stack.ClusterID && j.Type == flow.Script && !j.State.Ended() && j.State != flow.Canceling
	if visible && j.State.Held() {
		if visible, err = s.startedAgentOf(q, stack, jobID, j.AgentID); err != nil {
			return err
		}
	}
	if !visible {
		return core.Errorf(core.NotFound, noJob)
	}
	return nil
}

// startedAgentOf reports whether the stack may have started the agent that has a job. For an agent that
// registered with an agent token, the stack that reserved the job decides.
func (s *Service) startedAgentOf(q *db.Q, stack *Stack, jobID, agentID string) (bool, error) {
	started, err := agents.StartedBy(q, stack.OrganizationID, agentID, stack.ID)
	if err != nil || !started {
		return false, err
	}
	milestones, err := timeline.MilestonesOf(q, jobID)
	for _, m := range milestones {
		started = started && (m.What != timeline.Reserved || m.By == stack.Key)
	}
	return started, err
}

// findOwn returns a job of the stack's cluster, or a NotFound error when there is none or another stack has
// reserved it.
func (s *Service) findOwn(q *db.Q, stack *Stack, jobID string) (job, error) {
	jobs, err := readJobs(q, stack.OrganizationID, []string{jobID})
	j, ok := jobs[jobID]
	reservedByOther := j.reservation.Live(s.clock()) && j.reservation.StackID != stack.ID
	if err == nil && (!ok || j.ClusterID != stack.ClusterID || reservedByOther) {
		err = core.Errorf(core.NotFound, noJob)
	}
	return j, err
}

// finish ends a job that no agent has.
func (s *Service) finish(ctx context.Context, stack *Stack, jobID string, status int, detail string) error {
	exit := flow.Exit{Status: status}
	if status != 0 {
		exit.SignalReason = "stack_error"
	}
	check := func(q *db.Q) error {
		// With the lock no other stack reserves the job before it ends.
		if err := dispatch.Lock(q, jobID); err != nil {
			return err
		}
		j, err := s.findOwn(q, stack, jobID)
		switch {
		case err != nil:
			return err
		case j.Type != flow.Script:
			return core.Errorf(core.Unprocessable, "Only command jobs can be finished by a stack")
		case j.State.Ended():
			return core.Errorf(core.Unprocessable, "The job has ended already")
		case j.State.Held():
			return core.Errorf(core.Unprocessable, "The job is %s: an agent has it, so the stack cannot finish it", j.State)
		}
		return timeline.RecordAll(q, timeline.FinishedByStack, s.clock(), stack.Key, []string{jobID})
	}
	return s.builds.FinishUnstarted(ctx, stack.OrganizationID, jobID, check, exit, detail)
}
