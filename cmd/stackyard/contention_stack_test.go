package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	stackBatch   = 100 // jobs that a stack reserves and runs
	stackLeft    = 20  // jobs that it reserves and forgets
	stackWorkers = 6   // concurrent agents
)

// A competingStack reserves jobs. It runs some with an agent each, ends more without one, and forgets some.
type competingStack struct {
	competitor
	key string
}

func (s *competingStack) live() {
	registration := fmt.Sprintf(`{"key": "%s", "type": "custom", "queue_key": "default", "metadata": {}}`, s.key)
	_, ok := s.ask("POST", "/v3/stacks/register", contentionToken, registration, http.StatusCreated, nil)
	workers := make([]competitor, stackWorkers)
	for i := range workers {
		workers[i] = s.competitor.contention.competitor()
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
		// Extend the reservation of its jobs.
		if jobs, ok = s.reserve(jobs[:min(len(jobs), stackBatch)], 5*time.Second); !ok || len(jobs) == 0 {
			continue
		}
		if jobs, ok = s.reserve(jobs, time.Hour); ok {
			ok = s.work(workers, jobs)
		}
	}
}

func (s *competingStack) path(rest string) string { return "/v3/stacks/" + s.key + rest }

// list returns scheduled jobs, if there are any.
func (s *competingStack) list() (ids []string, ok bool) {
	var page struct{ Jobs []struct{ ID string } }
	_, ok = s.ask("GET", s.path("/scheduled-jobs?queue_key=default&limit=200&wait=5"), contentionToken, "", http.StatusOK, &page)
	for _, j := range page.Jobs {
		ids = append(ids, j.ID)
	}
	return ids, ok
}

// reserve returns the jobs that are reserved now.
func (s *competingStack) reserve(ids []string, expiry time.Duration) (reserved []string, ok bool) {
	if len(ids) == 0 {
		return nil, true
	}
	var reply struct{ Reserved []string }
	at, ok := s.ask("PUT", s.path("/scheduled-jobs/batch-reserve"), contentionToken,
		fmt.Sprintf(`{"job_uuids": %s, "reservation_expiry_seconds": %d}`, array(ids), int(expiry.Seconds())), http.StatusOK, &reply)
	for _, id := range reply.Reserved {
		s.note(id, func(s *jobRecord) *[]event { return &s.reserved }, event{who: s.key, moment: at, until: at.sent.Add(expiry)})
	}
	return reply.Reserved, ok
}

// work runs reserved jobs with workers, and ends some without an agent.
func (s *competingStack) work(workers []competitor, ids []string) bool {
	var issued struct {
		Tokens []struct {
			JobID string `json:"job_uuid"`
			Token string `json:"job_acquisition_token"`
		} `json:"job_acquisition_tokens"`
		NotIssued []string `json:"not_issued"`
	}
	_, ok := s.ask("POST", s.path("/job-acquisition-tokens"), contentionToken, fmt.Sprintf(`{"job_uuids": %s}`, array(ids)), http.StatusCreated, &issued)
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

// runOnly runs an agent that was started for one job.
func (c competitor) runOnly(token, job string) bool {
	session, ok := c.register(token)
	if !ok || !c.run(session, acquiring, job) {
		return false
	}
	_, ok = c.ask("POST", "/v3/disconnect", session.Token, "", http.StatusOK, nil)
	return ok
}

// finish ends a job without an agent.
func (s *competingStack) finish(c competitor, job string) bool {
	at, ok := c.ask("POST", s.path("/jobs/"+job+"/finish"), contentionToken, `{"exit_status": 0, "detail": "there was nothing to do"}`, http.StatusOK, nil)
	if ok {
		c.noteEnd(job, event{who: s.key, moment: at})
	}
	return ok
}

func array(ids []string) []byte {
	text, err := json.Marshal(ids)
	if err != nil {
		panic(err) // strings always encode
	}
	return text
}
