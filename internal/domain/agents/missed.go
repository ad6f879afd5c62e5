package agents

import (
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A steering is what others may change about an agent that has a session here, and what its session waits for.
type steering struct {
	state            State
	pausedAt, stopAt time.Time
	queueID          string
	jobID            string
	jobState         flow.JobState
}

// steering returns what is known of the agent.
func (now *standing) steering() steering {
	return steering{now.State, now.Pause.At, now.StopAskedAt, now.QueueID, now.job.JobID, now.job.State}
}

// idle reports whether the agent can be given a job, which is what most agents wait for.
func (s steering) idle() bool {
	return s.state == Connected && s.pausedAt.IsZero() && s.queueID != "" && s.jobID == ""
}

// findMissed wakes sessions that have missed a notification: another replica paused or stopped their agent, or
// ended its job, and died before it notified this one. It runs one statement. Idle agents are the most and the
// statement does not name them: it finds those that are not idle any more by an index.
func (s *Service) findMissed(q *db.Q) error {
	sessions := map[string]*standing{}
	var named []string
	for _, e := range s.roster.all() {
		if known := e.fresh(); known != nil {
			sessions[e.agentID] = known
			if !known.steering().idle() {
				named = append(named, e.agentID)
			}
		}
	}
	if len(sessions) == 0 {
		return nil
	}
	saved, err := steered(q, named)
	if err != nil {
		return err
	}
	for id, known := range sessions {
		now, found := saved[id]
		if before := known.steering(); found && now == before || !found && before.idle() {
			continue
		}
		if e := s.roster.ofAgent(id); e != nil && e.fresh() == known {
			s.bus.Wake(topic(id))
		}
	}
	return nil
}

// fresh returns what is known of the agent, or nil when it may be old and is read anew before it is used.
func (e *session) fresh() *standing {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stale || len(e.woken) > 0 {
		return nil
	}
	return e.known
}

// isSteered is the condition of the index agents_steered.
const isSteered = `a.state IN ('connected', 'stopping') AND (a.paused_at IS NOT NULL OR a.state = 'stopping' OR a.queue_id IS NULL)`

// steered returns the steerings of some agents, and of all agents that are connected and cannot be given a job
// because they are paused, stopping or without a queue.
func steered(q *db.Q, ids []string) (map[string]steering, error) {
	const columns = `
		SELECT a.id, a.state, a.paused_at, a.stop_asked_at, a.queue_id, j.id, j.state
		FROM agents a` + builds.JoinHeld
	in, arg := q.In("a.id", 1, ids)
	found := make(map[string]steering, len(ids))
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		var s steering
		err = scan(&id, &s.state, db.ToTime(&s.pausedAt), db.ToTime(&s.stopAt), db.ToText(&s.queueID), db.ToText(&s.jobID), db.ToText((*string)(&s.jobState)))
		if other, twice := found[id]; !twice || s.jobID < other.jobID { // of several jobs the first counts
			found[id] = s
		}
		return none, err
	}, columns+` WHERE `+in+` UNION ALL `+columns+` WHERE `+isSteered, arg)
	return found, err
}
