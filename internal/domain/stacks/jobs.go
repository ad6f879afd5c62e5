package stacks

import (
	"cmp"
	"context"
	"slices"
	"time"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

const noJob = "No job found"

// A token lets an agent take one job.
type token struct {
	jobID   string
	text    string
	expires time.Time
}

// Why no token was issued for a job.
const (
	reasonNotFound    = "not_found"
	reasonNotReserved = "not_reserved"
	reasonCluster     = "other_cluster"
	reasonExpired     = "reservation_expired"
	reasonNotCommand  = "not_command_job"
)

// issue makes tokens of jobs that a stack has reserved. For the others it returns the reasons, by job.
func (s *Service) issue(ctx context.Context, t *identity.AgentToken, stack *Stack, jobIDs []string, lifetime time.Duration) ([]token, map[string]string, error) {
	now := s.clock()
	var reserved map[string]time.Time
	var others map[string]standing
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if reserved, err = dispatch.ReservedBy(q, stack.OrganizationID, stack.ID, jobIDs); err != nil {
			return err
		}
		// Most have been reserved, and nothing more has to be known of them.
		if rest := slices.DeleteFunc(slices.Clone(jobIDs), func(id string) bool { return now.Before(reserved[id]) }); len(rest) > 0 {
			others, err = standings(q, stack.OrganizationID, rest)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	tokens := make([]token, 0, len(jobIDs))
	refused := make(map[string]string)
	for _, id := range jobIDs {
		until := reserved[id]
		if !now.Before(until) {
			j, ok := others[id]
			refused[id] = cmp.Or(j.reason(ok, stack, now), reasonNotReserved) // it was reserved at this moment
			continue
		}
		if end := now.Add(lifetime); end.Before(until) {
			until = end
		}
		tokens = append(tokens, token{id, s.agents.IssueAcquisition(t, stack.ID, id, until), until})
	}
	s.notes.issued(stack.Key, tokens, now)
	return tokens, refused, nil
}

// A standing is what counts of a job when a stack asks about it.
type standing struct {
	kind        flow.JobType
	state       flow.JobState
	agentID     string // of the agent that has or had it
	clusterID   string
	reservation dispatch.Reservation
}

// reason says why a stack gets no token for the job, or "".
func (j standing) reason(found bool, stack *Stack, now time.Time) string {
	switch {
	case !found:
		return reasonNotFound
	case j.kind != flow.Script:
		return reasonNotCommand
	case j.clusterID != stack.ClusterID:
		return reasonCluster
	case j.reservation.StackID != stack.ID:
		return reasonNotReserved
	case !j.reservation.Live(now):
		return reasonExpired
	}
	return ""
}

// word is the job's state in the words of the stacks API.
func (j standing) word(now time.Time) string {
	if j.state == flow.Scheduled && j.reservation.Live(now) {
		return "reserved"
	}
	return string(j.state)
}

// standings returns how jobs of an organization stand, by job. Those that do not exist are left out, and so are
// those of hosted queues, which agent tokens do not reach.
func standings(q *db.Q, orgID string, jobIDs []string) (map[string]standing, error) {
	in, arg := q.In("j.id", 2, jobIDs)
	found := make(map[string]standing, len(jobIDs))
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		var j standing
		err = scan(&id, &j.kind, &j.state, db.ToText(&j.agentID), db.ToText(&j.clusterID), db.ToText(&j.reservation.StackID), db.ToTime(&j.reservation.Until))
		found[id] = j
		return none, err
	}, `
		SELECT j.id, j.type, j.state, j.agent_id, b.cluster_id, r.reserved_by, r.reserved_until
		FROM jobs j
		JOIN builds b ON b.id = j.build_id
		LEFT JOIN clusters c ON c.id = b.cluster_id
		LEFT JOIN queues qu ON qu.id = j.queue_id
		LEFT JOIN runnable r ON r.job_id = j.id
		WHERE j.organization_id = $1 AND c.hosted IS NOT TRUE AND qu.hosted_agents IS NULL AND `+in, orgID, arg)
	return found, err
}

// states returns the states of jobs of the stack's cluster, by job.
func (s *Service) states(ctx context.Context, stack *Stack, jobIDs []string) (map[string]string, error) {
	var known map[string]standing
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		known, err = standings(q, stack.OrganizationID, jobIDs)
		return err
	})
	now := s.clock()
	states := make(map[string]string, len(known))
	for id, j := range known {
		if j.clusterID == stack.ClusterID {
			states[id] = j.word(now)
		}
	}
	return states, err
}

// checkOpen returns a NotFound error for a job that a stack has nothing to do with, or nothing any more: it is
// not a command job of the stack's cluster, it was canceled, it has ended, or an agent has it that another
// stack or nobody started.
func (s *Service) checkOpen(q *db.Q, stack *Stack, jobID string) error {
	known, err := standings(q, stack.OrganizationID, []string{jobID})
	if err != nil {
		return err
	}
	j, open := known[jobID]
	open = open && j.clusterID == stack.ClusterID && j.kind == flow.Script && !j.state.Ended() && j.state != flow.Canceling
	if open && j.state.Held() {
		if open, err = s.startedBy(q, stack, jobID, j.agentID); err != nil {
			return err
		}
	}
	if !open {
		return core.Errorf(core.NotFound, noJob)
	}
	return nil
}

// startedBy reports whether the agent that has a job may have been started by the stack. Agents with an agent
// token of their own are told apart by the stack that reserved the job.
func (s *Service) startedBy(q *db.Q, stack *Stack, jobID, agentID string) (bool, error) {
	started, err := agents.StartedBy(q, stack.OrganizationID, agentID, stack.ID)
	if err != nil || !started {
		return false, err
	}
	noted, err := builds.MilestonesOf(q, jobID)
	for _, m := range noted {
		started = started && (m.What != builds.Reserved || m.By == stack.Key)
	}
	return started, err
}

// standing returns how a job stands that the stack may finish, or a NotFound error: it is in another
// cluster, or another stack has reserved it.
func (s *Service) standing(ctx context.Context, stack *Stack, jobID string) (j standing, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		j, err = s.standingIn(q, stack, jobID)
		return err
	})
	return j, err
}

func (s *Service) standingIn(q *db.Q, stack *Stack, jobID string) (standing, error) {
	known, err := standings(q, stack.OrganizationID, []string{jobID})
	j, ok := known[jobID]
	others := j.reservation.Live(s.clock()) && j.reservation.StackID != stack.ID
	if err == nil && (!ok || j.clusterID != stack.ClusterID || others) {
		err = core.Errorf(core.NotFound, noJob)
	}
	return j, err
}

// finish ends a job that no agent has, because the stack says so.
func (s *Service) finish(ctx context.Context, stack *Stack, jobID string, status int, detail string) error {
	exit := flow.Exit{Status: status}
	if status != 0 {
		exit.SignalReason = "stack_error"
	}
	may := func(q *db.Q) error {
		// What another stack reserves meanwhile is not this one's to finish.
		if err := dispatch.Lock(q, jobID); err != nil {
			return err
		}
		j, err := s.standingIn(q, stack, jobID)
		switch {
		case err != nil:
			return err
		case j.kind != flow.Script:
			return core.Errorf(core.Unprocessable, "Only command jobs can be finished by a stack")
		case j.state.Ended():
			return core.Errorf(core.Unprocessable, "The job has ended already")
		case j.state.Held():
			return core.Errorf(core.Unprocessable, "The job is %s: an agent has it, so the stack cannot finish it", j.state)
		}
		return builds.NoteMilestone(q, builds.FinishedByStack, s.clock(), stack.Key, []string{jobID})
	}
	return s.builds.FinishUnstarted(ctx, stack.OrganizationID, jobID, may, exit, detail)
}
