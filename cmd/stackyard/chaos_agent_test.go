package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// A wildAgent behaves like an agent as long as its mode is normal. It retries calls without a response; in
// other modes it misbehaves at random.
type wildAgent struct {
	*chaos
	random  *rand.Rand
	ctx     context.Context
	id      string
	session string
	had     []string // jobs that were assigned to it
}

// live connects and takes jobs until ctx is done.
func (a *wildAgent) live(ctx context.Context) {
	a.ctx = ctx
	for ctx.Err() == nil {
		if a.register() {
			for ctx.Err() == nil && a.work() {
			}
		}
	}
}

// chance returns true with probability 1/n, if the mode is at least m.
func (a *wildAgent) chance(m mode, n int) bool {
	return a.random.IntN(n) == 0 && a.mode.Load() >= m
}

func (a *wildAgent) register() bool {
	answer, err := a.ask(a.ctx, chaosAgentToken, "POST", "/v3/register", `{"name": "wild-%random", "meta_data": []}`)
	var registered struct {
		ID    string
		Token string `json:"access_token"`
	}
	if err != nil || a.unavailable(answer) || json.Unmarshal(answer.Body, &registered) != nil {
		a.pause()
		return false
	}
	a.id, a.session, a.had = registered.ID, registered.Token, nil
	return a.untilAnswered("POST", "/v3/connect") == http.StatusOK
}

// A heldJob is a job that was assigned to the agent.
type heldJob struct {
	id, token string
	printed   int
}

// work asks for a job and runs it, and reports whether the agent is still connected.
func (a *wildAgent) work() bool {
	if a.chance(rude, 4) {
		if job := a.lie(a.session); job != nil {
			return a.run(job)
		}
	}
	id := a.ping()
	switch {
	case id == "":
		return true
	case a.chance(wild, 12):
		return false // without accepting it
	case a.chance(wild, 12):
		return !a.disconnect()
	}
	job := a.take(accepting, id)
	return job == nil || a.run(job)
}

// ping returns the offered job, if any.
func (a *wildAgent) ping() string {
	c := exchange{agent: a.id, verb: pinging, sent: time.Now()}
	answer, err := a.ask(a.ctx, a.session, "GET", "/v3/ping", "")
	if err != nil || a.unavailable(answer) {
		a.pause()
		return ""
	}
	var ping struct{ Job struct{ ID string } }
	if err := json.Unmarshal(answer.Body, &ping); err != nil {
		a.t.Errorf("%v in the answer to a ping: %s", err, answer.Body)
	}
	c.answered, c.status, c.job = time.Now(), answer.Status, ping.Job.ID
	a.history.add(c)
	return c.job
}

// take accepts or acquires a job, and returns it if the agent holds it now.
func (a *wildAgent) take(how verb, id string) *heldJob {
	answer := a.report(how, a.session, id, "", "PUT", "/"+string(how), "")
	if answer.Status != http.StatusOK {
		return nil
	}
	var job struct{ Token string }
	if err := json.Unmarshal(answer.Body, &job); err != nil {
		a.t.Errorf("%v in the answer to %s: %s", err, how, answer.Body)
	}
	a.had = append(a.had, id)
	return &heldJob{id: id, token: job.Token}
}

// run runs a job, and reports whether the agent is still connected.
func (a *wildAgent) run(j *heldJob) bool {
	for _, act := range []func(*heldJob) bool{a.start, a.print, a.set, a.print, a.store, a.print, a.finish} {
		switch {
		case a.chance(wild, 40):
			return false // without a report
		case a.chance(wild, 30):
			a.freeze(j)
		case a.chance(wild, 40):
			return !a.disconnect()
		case a.chance(rude, 10):
			a.lie(j.token)
		}
		if !act(j) {
			break
		}
	}
	return true
}

// start, print and finish report whether the agent continues with its job.

func (a *wildAgent) start(j *heldJob) bool {
	return a.report(starting, j.token, j.id, "", "PUT", "/start", `{"started_at": "2026-01-02T03:04:05Z"}`).Status == http.StatusOK
}

func (a *wildAgent) print(j *heldJob) bool {
	a.printAs(j.token, j.id, j.printed)
	j.printed++
	return true
}

// printAs prints a line. All lines have the same size.
func (a *wildAgent) printAs(token, job string, number int) answer {
	text := fmt.Sprintf("%s prints %d\n", a.id, number)
	return a.report(printing, token, job, text, "POST", fmt.Sprintf("/chunks?sequence=%d&offset=%d&size=%d", number+1, number*len(text), len(text)), text)
}

// set sets meta-data of the build under a key of the job.
func (a *wildAgent) set(j *heldJob) bool {
	a.report(setting, j.token, j.id, j.id+"="+a.id, "POST", "/data/set", fmt.Sprintf(`{"key": %q, "value": %q}`, j.id, a.id))
	return true
}

func (a *wildAgent) finish(j *heldJob) bool {
	status := a.random.IntN(3)
	finished := a.finishAs(j.token, j.id, status)
	if finished.Status == http.StatusOK && a.chance(rude, 2) {
		if again := a.finishAs(j.token, j.id, status); again.Status != http.StatusOK {
			a.t.Errorf("a job was finished, and finished again: %d %s", again.Status, again.Body)
		}
		a.refused("finish with another status", a.finishAs(j.token, j.id, status+1))
		a.refused("start after the end", a.report(starting, j.token, j.id, "", "PUT", "/start", "{}"))
		a.refused("acquire after the end", a.report(acquiring, a.session, j.id, "", "PUT", "/acquire", ""))
	}
	return true
}

func (a *wildAgent) finishAs(token, job string, status int) answer {
	return a.report(finishing, token, job, fmt.Sprint(status), "PUT", "/finish", fmt.Sprintf(`{"exit_status": "%d", "chunks_failed_count": 0}`, status))
}

// lie reports on a job of another agent. If it gets the job anyway, it returns it.
func (a *wildAgent) lie(token string) *heldJob {
	jobs := slices.DeleteFunc(a.history.recentJobs(), func(id string) bool { return slices.Contains(a.had, id) })
	id := uuid.NewString()
	if len(jobs) > 0 && a.random.IntN(10) > 0 {
		recent := jobs[max(0, len(jobs)-2*chaosAgents):]
		id = recent[a.random.IntN(len(recent))]
	}
	switch a.random.IntN(5) {
	case 0:
		a.refused("start", a.report(starting, token, id, "", "PUT", "/start", "{}"))
	case 1:
		a.refused("print", a.printAs(token, id, 100))
	case 2:
		a.refused("finish", a.finishAs(token, id, 5))
	default:
		if token != a.session {
			a.refused("accept", a.report(accepting, token, id, "", "PUT", "/accept", ""))
			return nil
		}
		// The response to an earlier offer may have been lost, or the job may have no holder yet.
		return a.take([]verb{accepting, acquiring}[a.random.IntN(2)], id)
	}
	return nil
}

// refused checks the response to a lie, if there is one.
func (a *wildAgent) refused(what string, answer answer) {
	if answer.Status != 0 && (answer.Status < 400 || answer.Status >= 500) {
		a.t.Errorf("%s: %d %s", what, answer.Status, answer.Body)
	}
}

// freeze sends nothing until the server has ended the agent's job.
func (a *wildAgent) freeze(j *heldJob) {
	defer a.frozen.Add(-1)
	if a.frozen.Add(1) > maxFrozen {
		return
	}
	for a.ctx.Err() == nil {
		answer, err := a.ask(a.ctx, adaToken, "GET", "/v2/organizations/acme/jobs/"+j.id, "")
		var job chaosJob
		if err == nil && json.Unmarshal(answer.Body, &job) == nil && job.ended() {
			return
		}
		a.pause()
	}
}

// disconnect disconnects, and reports whether the server responded.
func (a *wildAgent) disconnect() bool {
	return a.untilAnswered("POST", "/v3/disconnect") == http.StatusOK
}

// untilAnswered makes a call that is about no job until there is a response.
func (a *wildAgent) untilAnswered(method, path string) (status int) {
	for {
		answer, err := a.ask(context.Background(), a.session, method, path, "")
		if err == nil && !a.unavailable(answer) {
			return answer.Status
		}
		if a.ctx.Err() != nil {
			return 0
		}
		a.pause()
	}
}

// report sends a report about a job and records it. Sometimes it sends it twice concurrently.
func (a *wildAgent) report(v verb, token, job, text, method, path, body string) answer {
	c := exchange{agent: a.id, verb: v, job: job, text: text}
	if !a.chance(rude, 8) {
		return a.reportOnce(c, token, method, path, body)
	}
	var other, one answer
	var both sync.WaitGroup
	both.Go(func() { other = a.reportOnce(c, token, method, path, body) })
	one = a.reportOnce(c, token, method, path, body)
	both.Wait()
	if other.Status == http.StatusOK {
		return other
	}
	return one
}

// reportOnce sends a report until there is a response.
func (a *wildAgent) reportOnce(c exchange, token, method, path, body string) answer {
	for {
		c.sent = time.Now()
		answer, err := a.ask(context.Background(), token, method, "/v3/jobs/"+c.job+path, body)
		c.answered, c.status = time.Now(), answer.Status
		answered := err == nil && !a.unavailable(answer)
		if !answered {
			c.status = 0
		}
		a.history.add(c)
		if answered || a.ctx.Err() != nil {
			return answer
		}
		a.pause()
	}
}

// ask sends a request to the current server.
func (a *wildAgent) ask(ctx context.Context, token, method, path, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	server := a.server.Load()
	if beside := a.beside.Load(); beside != nil && rand.IntN(2) == 0 {
		server = beside
	}
	req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Token "+token)
	if token == adaToken {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return send(httpClient, req)
}

// unavailable reports whether a response says that the database does not answer, which counts as no response.
func (a *wildAgent) unavailable(r answer) bool {
	return a.outages && r.Status == http.StatusServiceUnavailable
}

// pause waits for the server to restart.
func (a *wildAgent) pause() {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-a.ctx.Done():
	}
}
