package agents

import (
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A steering is what others may change about an agent that has a session here, and what its session waits for.
type watchedState struct {
	state            State
	pausedAt, stopAt time.Time
	queueID          string
	jobID            string
	jobState         flow.JobState
}

// watched returns what is known of the agent.
func (now *snapshot) watched() watchedState {
	return watchedState{now.State, now.Pause.At, now.StopRequestedAt, now.QueueID, now.job.JobID, now.job.State}
}

// busyPolling reports whether the agent can be given a job, which is what most agents wait for.
func (s watchedState) idle() bool {
	return s.state == Connected && s.pausedAt.IsZero() && s.queueID != "" && s.jobID == ""
}

// findMissedChanges wakes sessions that have missed a notification: another replica paused or stopped their agent, or
// ended its job, and died before it notified this one. It runs one statement. Idle agents are the most and the
// statement does not name them: it finds those that are not idle any more by an index.
func (s *Service) findMissedChanges(q *db.Q) error {
	sessions := map[string]*snapshot{}
	var named []string
	for _, e := range s.sessions.all() {
		if known := e.fresh(); known != nil {
			sessions[e.agentID] = known
			if !known.watched().idle() {
				named = append(named, e.agentID)
			}
		}
	}
	if len(sessions) == 0 {
		return nil
	}
	saved, err := readWatched(q, named)
	if err != nil {
		return err
	}
	for id, known := range sessions {
		now, found := saved[id]
		if before := known.watched(); found && now == before || !found && before.idle() {
			continue
		}
		if e := s.sessions.findByAgent(id); e != nil && e.fresh() == known {
			s.bus.Wake(topic(id))
		}
	}
	return nil
}

// fresh returns what is known of the agent, or nil when it may be old and is read anew before it is used.
func (e *session) fresh() *snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stale || len(e.wakeups) > 0 {
		return nil
	}
	return e.latest
}

// isUndispatchable is the condition of the index agents_steered.
const isUndispatchable = `a.state IN ('connected', 'stopping') AND (a.paused_at IS NOT NULL OR a.state = 'stopping' OR a.queue_id IS NULL)`

// readWatched returns the steerings of some agents, and of all agents that are connected and cannot be given a job
// because they are paused, stopping or without a queue.
func readWatched(q *db.Q, ids []string) (map[string]watchedState, error) {
	const columns = `
		SELECT a.id, a.state, a.paused_at, a.stop_asked_at, a.queue_id, j.id, j.state
		FROM agents a` + builds.JoinHeld
	in, arg := q.In("a.id", 1, ids)
	found := make(map[string]watchedState, len(ids))
	_, err := db.All(q, func(scan db.Scan) (none struct{}, err error) {
		var id string
		var s watchedState
		err = scan(&id, &s.state, db.ToTime(&s.pausedAt), db.ToTime(&s.stopAt), db.ToText(&s.queueID), db.ToText(&s.jobID), db.ToText((*string)(&s.jobState)))
		if other, twice := found[id]; !twice || s.jobID < other.jobID { // of several jobs the first counts
			found[id] = s
		}
		return none, err
	}, columns+` WHERE `+in+` UNION ALL `+columns+` WHERE `+isUndispatchable, arg)
	return found, err
}
