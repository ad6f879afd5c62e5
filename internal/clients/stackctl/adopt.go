package stackctl

import (
	"context"
	"slices"
	"sync"

	"stackyard/internal/clients/sleep"
)

// adopt continues the jobs whose agents a previous process of the stack started. It extends the reservations of
// those that no agent has acquired yet; jobs that have ended meanwhile are cleaned up.
func (s *Stack) adopt(ctx context.Context, compute Persistent, jobs *sync.WaitGroup) error {
	found, err := compute.Running(ctx)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(found, maxJobs) {
		ids := make([]string, len(batch))
		for i, w := range batch {
			ids[i] = w.JobID
		}
		if _, err := s.API.Reserve(ctx, s.Key, ids, reservation); err != nil {
			return err
		}
	}
	for _, w := range found {
		w.Adopted = true
		s.start(ctx, jobs, s.take(1), w)
	}
	if len(found) > 0 {
		s.Log.Info("adopted agents", "stack", s.Key, "agents", len(found))
	}
	return nil
}

// runningJobs returns the reserved jobs that have not ended.
func (s *Stack) runningJobs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.running))
	for id := range s.running {
		ids = append(ids, id)
	}
	return ids
}

// live are the states of jobs that need their agent.
var live = []string{"scheduled", "reserved", "assigned", "accepted", "running", "canceling", "timing_out"}

// watchStates stops the agents of jobs that have ended on the server, for example because they were canceled,
// and of jobs whose reservation was lost.
func (s *Stack) watchStates(ctx context.Context) {
	for sleep.For(ctx, stateInterval) {
		for batch := range slices.Chunk(s.runningJobs(), maxJobs) {
			states, err := s.API.States(ctx, s.Key, batch)
			if err != nil {
				s.logError(ctx, "get job states failed", err)
				continue
			}
			s.regain(ctx, states)
			for _, id := range batch {
				if state := states[id]; !slices.Contains(live, state) {
					s.end(id, state)
				}
			}
		}
	}
}

// regain reserves jobs again whose reservation has expired, and stops the agents of those that another stack
// has reserved meanwhile.
func (s *Stack) regain(ctx context.Context, states map[string]string) {
	var expired []string
	for id, state := range states {
		if state == "scheduled" {
			expired = append(expired, id)
		}
	}
	if len(expired) == 0 {
		return
	}
	regained, err := s.API.Reserve(ctx, s.Key, expired, reservation)
	if err != nil {
		s.logError(ctx, "reserve jobs again failed", err)
		return
	}
	for _, id := range expired {
		if !slices.Contains(regained, id) {
			s.end(id, "no longer reserved by this stack")
		}
	}
}

// end stops the agent of a job.
func (s *Stack) end(id, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.running[id]; end != nil {
		end(Ended{State: state})
	}
}
