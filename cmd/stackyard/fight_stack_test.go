package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	stackBatch   = 100 // jobs that a stack reserves to run them
	stackLeft    = 20  // jobs that it reserves and forgets
	stackWorkers = 6   // agents that it runs at the same time
)

// A fightingStack reserves jobs. Some it runs, each with an agent of its own, more it ends without one, and
// some it forgets.
type fightingStack struct {
	contestant
	key string
}

func (s *fightingStack) live() {
	registration := fmt.Sprintf(`{"key": "%s", "type": "custom", "queue_key": "default", "metadata": {}}`, s.key)
	_, ok := s.ask("POST", "/v3/stacks/register", fightAgentToken, registration, http.StatusCreated, nil)
	workers := make([]contestant, stackWorkers)
	for i := range workers {
		workers[i] = s.contestant.fight.contestant()
	}
	for round := 0; ok; round++ {
		var jobs []string
		if jobs, ok = s.list(); !ok {
			return
		}
		if round%4 == 3 && int(s.ended.Load()) < s.jobs()*4/5 {
			_, ok = s.reserve(jobs[:min(len(jobs), stackLeft)], time.Second)
			continue
		}
		// What it has it reserves for longer than it was going to at first.
		if jobs, ok = s.reserve(jobs[:min(len(jobs), stackBatch)], 5*time.Second); !ok || len(jobs) == 0 {
			continue
		}
		if jobs, ok = s.reserve(jobs, time.Hour); ok {
			ok = s.work(workers, jobs)
		}
	}
}

func (s *fightingStack) path(rest string) string { return "/v3/stacks/" + s.key + rest }

// list returns jobs that wait, when there are any.
func (s *fightingStack) list() (ids []string, ok bool) {
	var page struct{ Jobs []struct{ ID string } }
	_, ok = s.ask("GET", s.path("/scheduled-jobs?queue_key=default&limit=200&wait=5"), fightAgentToken, "", http.StatusOK, &page)
	for _, j := range page.Jobs {
		ids = append(ids, j.ID)
	}
	return ids, ok
}

// reserve returns those of some jobs that are reserved now.
func (s *fightingStack) reserve(ids []string, expiry time.Duration) (reserved []string, ok bool) {
	if len(ids) == 0 {
		return nil, true
	}
	var told struct{ Reserved []string }
	at, ok := s.ask("PUT", s.path("/scheduled-jobs/batch-reserve"), fightAgentToken,
		fmt.Sprintf(`{"job_uuids": %s, "reservation_expiry_seconds": %d}`, array(ids), int(expiry.Seconds())), http.StatusOK, &told)
	for _, id := range told.Reserved {
		s.note(id, func(s *story) *[]event { return &s.reserved }, event{who: s.key, moment: at, until: at.sent.Add(expiry)})
	}
	return told.Reserved, ok
}

// work has workers run jobs that the stack has reserved, and ends some itself.
func (s *fightingStack) work(workers []contestant, ids []string) bool {
	var issued struct {
		Tokens []struct {
			JobID string `json:"job_uuid"`
			Token string `json:"job_acquisition_token"`
		} `json:"job_acquisition_tokens"`
		NotIssued []string `json:"not_issued"`
	}
	_, ok := s.ask("POST", s.path("/job-acquisition-tokens"), fightAgentToken, fmt.Sprintf(`{"job_uuids": %s}`, array(ids)), http.StatusCreated, &issued)
	if !ok {
		return false
	}
	if len(issued.NotIssued) > 0 || len(issued.Tokens) != len(ids) {
		s.t.Errorf("%d jobs are reserved, and there are %d tokens; not issued: %v", len(ids), len(issued.Tokens), issued.NotIssued)
	}
	var all sync.WaitGroup
	for w, worker := range workers {
		all.Go(func() {
			for i := w; i < len(issued.Tokens); i += len(workers) {
				t := issued.Tokens[i]
				run := func() bool { return s.finish(worker, t.JobID) }
				if i%3 == 0 {
					run = func() bool { return worker.runOnly(t.Token, t.JobID) }
				}
				if !run() {
					return
				}
			}
		})
	}
	all.Wait()
	return !s.isOver()
}

// runOnly is the life of an agent that has come for one job.
func (c contestant) runOnly(token, job string) bool {
	session, ok := c.register(token)
	if !ok || !c.run(session, acquiring, job) {
		return false
	}
	_, ok = c.ask("POST", "/v3/disconnect", session.Token, "", http.StatusOK, nil)
	return ok
}

// finish ends a job without an agent.
func (s *fightingStack) finish(c contestant, job string) bool {
	at, ok := c.ask("POST", s.path("/jobs/"+job+"/finish"), fightAgentToken, `{"exit_status": 0, "detail": "there was nothing to do"}`, http.StatusOK, nil)
	if ok {
		c.noteEnd(job, event{who: s.key, moment: at})
	}
	return ok
}

func array(ids []string) []byte {
	text, err := json.Marshal(ids)
	if err != nil {
		panic(err) // texts can be written
	}
	return text
}
