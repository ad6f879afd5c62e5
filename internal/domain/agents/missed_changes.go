package agents

import (
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// A watchedState is what other replicas can change about an agent with a session here.
type watchedState struct {
	state            State
	pausedAt, stopAt time.Time
	queueID          string
	jobID            string
	jobState         flow.JobState
}

// watched returns the watched state of the snapshot.
func (now *snapshot) watched() watchedState {
	return watchedState{now.State, now.Pause.At, now.StopRequestedAt, now.QueueID, now.job.JobID, now.job.State}
}

// idle reports whether the agent can get a job. Most agents are idle.
func (s watchedState) idle() bool {
	return s.state == Connected && s.pausedAt.IsZero() && s.queueID != "" && s.jobID == ""
}

// findMissedChanges wakes sessions that missed a notification: another replica paused or stopped the agent, or
// ended its job, and died before it notified this one. It runs one statement. The statement does not name idle
// agents, which are the most: it finds agents that are no longer idle by an index.
func (s *Service) findMissedChanges(q *db.Q) error {
	sessions := map[string]*snapshot{}
	var named []string
	for _, sess := range s.sessions.all() {
		if known := sess.fresh(); known != nil {
			sessions[sess.agentID] = known
			if !known.watched().idle() {
				named = append(named, sess.agentID)
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
		if sess := s.sessions.findByAgent(id); sess != nil && sess.fresh() == known {
			s.bus.Wake(topic(id))
		}
	}
	return nil
}

// fresh returns the snapshot, or nil when it may be stale and is read again before its next use.
func (sess *session) fresh() *snapshot {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.stale || len(sess.wakeups) > 0 {
		return nil
	}
	return sess.latest
}

// isUndispatchable is the condition of the index agents_steered.
const isUndispatchable = `a.state IN ('connected', 'stopping') AND (a.paused_at IS NOT NULL OR a.state = 'stopping' OR a.queue_id IS NULL)`

// readWatched returns the watched states of some agents, and of all connected agents that cannot get a job
// because they are paused, stopping or without a queue.
func readWatched(q *db.Q, ids []string) (map[string]watchedState, error) {
	const columns = `
		SELECT a.id, a.state, a.paused_at, a.stop_asked_at, a.queue_id, j.id, j.state
		FROM agents a` + builds.JoinHeld
	in, arg := q.In("a.id", 1, ids)
	found := make(map[string]watchedState, len(ids))
	err := db.Each(q, func(scan db.Scan) error {
		var id string
		var s watchedState
		err := scan(&id, &s.state, db.ToTime(&s.pausedAt), db.ToTime(&s.stopAt), db.ToText(&s.queueID), db.ToText(&s.jobID), db.ToText((*string)(&s.jobState)))
		if other, twice := found[id]; !twice || s.jobID < other.jobID { // of several jobs the first counts, as in readSnapshot
			found[id] = s
		}
		return err
	}, columns+` WHERE `+in+` UNION ALL `+columns+` WHERE `+isUndispatchable, arg)
	return found, err
}
