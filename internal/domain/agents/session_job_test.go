package agents

import (
	"testing"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// idleSession is the session of an agent without a job, whose snapshot is not stale.
func idleSession() *session {
	sess := &session{latest: &snapshot{Agent: &Agent{ID: "agent"}}, changed: make(chan struct{}), wakeups: make(chan struct{}, 1)}
	sess.identity.Store(&identity.AgentSession{})
	return sess
}

func move(jobID string, state flow.JobState, version int64) jobMove {
	return jobMove{Holding: builds.Holding{JobID: jobID, AgentID: "agent", State: state}, version: version}
}

func TestFollow_KnowsTheJobFromItsAssignmentToItsEnd(t *testing.T) {
	sess, ended := idleSession(), time.Unix(1, 0)
	for i, state := range []flow.JobState{flow.Assigned, flow.Accepted, flow.Running, flow.Canceling} {
		waiting := sess.changed
		sess.follow(move("a", state, int64(i)))
		h, ok := sess.holding("a")
		if !ok || h.State != state || sess.stale {
			t.Errorf("%s: the session has %v, %v, stale: %v", state, h, ok, sess.stale)
		}
		select {
		case <-waiting:
		default:
			t.Errorf("%s: requests that wait are not woken", state)
		}
	}
	end := move("a", flow.Finished, 9)
	end.endedAt = ended
	sess.follow(end)
	if now := sess.latest; sess.stale || now.job != (builds.Holding{}) || !now.LastJobFinishedAt.Equal(ended) || !sess.takeJobFinished() {
		t.Errorf("after the end the session has %+v, stale: %v", now.job, sess.stale)
	}
}

func TestFollow_IgnoresAChangeThatALaterOneHasOvertaken(t *testing.T) {
	sess := idleSession()
	sess.follow(move("a", flow.Assigned, 1))
	sess.follow(move("a", flow.Canceling, 3))
	sess.follow(move("a", flow.Running, 2))
	if h, ok := sess.holding("a"); !ok || h.State != flow.Canceling {
		t.Errorf("the session has %v, %v", h, ok)
	}
}

func TestFollow_ReadsAgainWhatItDoesNotKnow(t *testing.T) {
	for name, prepare := range map[string]func(*session){
		"a job that was acquired":     func(s *session) { s.follow(move("a", flow.Accepted, 1)) },
		"a second job":                func(s *session) { s.follow(move("b", flow.Assigned, 1)); s.follow(move("a", flow.Assigned, 1)) },
		"a change of a stale session": func(s *session) { s.stale = true; s.follow(move("a", flow.Assigned, 1)) },
		"the end of a job that was read": func(s *session) {
			s.update(&snapshot{Agent: s.latest.Agent, job: move("a", flow.Running, 1).Holding}, s.followed)
			s.follow(move("a", flow.Finished, 2))
		},
		"a change during a read": func(s *session) {
			_, _, followed, _ := s.cached()
			s.follow(move("a", flow.Assigned, 1))
			s.update(&snapshot{Agent: s.latest.Agent}, followed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sess := idleSession()
			prepare(sess)
			if _, ok := sess.holding("a"); ok || !sess.stale {
				t.Errorf("the session relies on what it has: %+v", sess.latest.job)
			}
		})
	}
}
