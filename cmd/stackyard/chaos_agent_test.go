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

// A wildAgent speaks as agents do, as long as its mood is mild. It calls again when it gets no answer, as
// agents do; what it says otherwise depends on chance.
type wildAgent struct {
	*chaos
	random  *rand.Rand
	ctx     context.Context
	id      string
	session string
	had     []string // the jobs that were its own
}

// live has the agent come and take jobs until ctx is done.
func (a *wildAgent) live(ctx context.Context) {
	a.ctx = ctx
	for ctx.Err() == nil {
		if a.register() {
			for ctx.Err() == nil && a.work() {
			}
		}
	}
}

// whim reports, one time out of n, that an agent in such a mood does it.
func (a *wildAgent) whim(m mood, n int) bool {
	return a.random.IntN(n) == 0 && a.mood.Load() >= m
}

func (a *wildAgent) register() bool {
	answer, err := a.ask(a.ctx, chaosAgentToken, "POST", "/v3/register", `{"name": "wild-%random", "meta_data": []}`)
	var registered struct {
		ID    string
		Token string `json:"access_token"`
	}
	if err != nil || json.Unmarshal(answer.Body, &registered) != nil {
		a.pause()
		return false
	}
	a.id, a.session, a.had = registered.ID, registered.Token, nil
	return a.untilAnswered("POST", "/v3/connect") == http.StatusOK
}

// A heldJob is one that the agent was given.
type heldJob struct {
	id, token string
	printed   int
}

// work asks for a job and runs it, and reports whether the agent is still there.
func (a *wildAgent) work() bool {
	if a.whim(rude, 4) {
		if job := a.lie(a.session); job != nil {
			return a.run(job)
		}
	}
	id := a.ping()
	switch {
	case id == "":
		return true
	case a.whim(wild, 12):
		return false // without having accepted it
	case a.whim(wild, 12):
		return !a.disconnect()
	}
	job := a.take(accepting, id)
	return job == nil || a.run(job)
}

// ping returns the job that the agent is offered, if any.
func (a *wildAgent) ping() string {
	c := utterance{agent: a.id, verb: pinging, sent: time.Now()}
	answer, err := a.ask(a.ctx, a.session, "GET", "/v3/ping", "")
	if err != nil {
		a.pause()
		return ""
	}
	var told struct{ Job struct{ ID string } }
	if err := json.Unmarshal(answer.Body, &told); err != nil {
		a.t.Errorf("%v in the answer to a ping: %s", err, answer.Body)
	}
	c.answered, c.status, c.job = time.Now(), answer.Status, told.Job.ID
	a.history.add(c)
	return c.job
}

// take accepts or acquires a job, and returns it if the agent has it now.
func (a *wildAgent) take(how verb, id string) *heldJob {
	answer := a.say(how, a.session, id, "", "PUT", "/"+string(how), "")
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

// run runs a job, and reports whether the agent is still there.
func (a *wildAgent) run(j *heldJob) bool {
	for _, act := range []func(*heldJob) bool{a.start, a.print, a.print, a.print, a.finish} {
		switch {
		case a.whim(wild, 40):
			return false // without a word
		case a.whim(wild, 30):
			a.freeze(j)
		case a.whim(wild, 40):
			return !a.disconnect()
		case a.whim(rude, 10):
			a.lie(j.token)
		}
		if !act(j) {
			break
		}
	}
	return true
}

// start, print and finish report whether the agent goes on with its job.

func (a *wildAgent) start(j *heldJob) bool {
	return a.say(starting, j.token, j.id, "", "PUT", "/start", `{"started_at": "2026-01-02T03:04:05Z"}`).Status == http.StatusOK
}

func (a *wildAgent) print(j *heldJob) bool {
	a.printAs(j.token, j.id, j.printed)
	j.printed++
	return true
}

// printAs prints a line, whose size is that of every line.
func (a *wildAgent) printAs(token, job string, number int) answer {
	text := fmt.Sprintf("%s prints %d\n", a.id, number)
	return a.say(printing, token, job, text, "POST", fmt.Sprintf("/chunks?sequence=%d&offset=%d&size=%d", number+1, number*len(text), len(text)), text)
}

func (a *wildAgent) finish(j *heldJob) bool {
	status := a.random.IntN(3)
	finished := a.finishAs(j.token, j.id, status)
	if finished.Status == http.StatusOK && a.whim(rude, 2) {
		if again := a.finishAs(j.token, j.id, status); again.Status != http.StatusOK {
			a.t.Errorf("a job was finished, and finished again: %d %s", again.Status, again.Body)
		}
		a.refused("finish with another status", a.finishAs(j.token, j.id, status+1))
		a.refused("start after the end", a.say(starting, j.token, j.id, "", "PUT", "/start", "{}"))
		a.refused("acquire after the end", a.say(acquiring, a.session, j.id, "", "PUT", "/acquire", ""))
	}
	return true
}

func (a *wildAgent) finishAs(token, job string, status int) answer {
	return a.say(finishing, token, job, fmt.Sprint(status), "PUT", "/finish", fmt.Sprintf(`{"exit_status": "%d", "chunks_failed_count": 0}`, status))
}

// lie says something about a job that is not the agent's. What it gets in spite of it is its own.
func (a *wildAgent) lie(token string) *heldJob {
	jobs := slices.DeleteFunc(a.history.heardOf(), func(id string) bool { return slices.Contains(a.had, id) })
	id := uuid.NewString()
	if len(jobs) > 0 && a.random.IntN(10) > 0 {
		recent := jobs[max(0, len(jobs)-2*chaosAgents):]
		id = recent[a.random.IntN(len(recent))]
	}
	switch a.random.IntN(5) {
	case 0:
		a.refused("start", a.say(starting, token, id, "", "PUT", "/start", "{}"))
	case 1:
		a.refused("print", a.printAs(token, id, 100))
	case 2:
		a.refused("finish", a.finishAs(token, id, 5))
	default:
		if token != a.session {
			a.refused("accept", a.say(accepting, token, id, "", "PUT", "/accept", ""))
			return nil
		}
		// It may be that it was offered the job, and did not hear of it, or that nobody has it yet.
		return a.take([]verb{accepting, acquiring}[a.random.IntN(2)], id)
	}
	return nil
}

func (a *wildAgent) refused(what string, answer answer) {
	if answer.Status < 400 || answer.Status >= 500 {
		a.t.Errorf("%s: %d %s", what, answer.Status, answer.Body)
	}
}

// freeze says nothing until the server has ended the agent's job.
func (a *wildAgent) freeze(j *heldJob) {
	defer a.frozen.Add(-1)
	if a.frozen.Add(1) > mostFrozen {
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

// disconnect says that the agent leaves, and reports whether it was heard.
func (a *wildAgent) disconnect() bool {
	return a.untilAnswered("POST", "/v3/disconnect") == http.StatusOK
}

// untilAnswered says something that is about no job.
func (a *wildAgent) untilAnswered(method, path string) (status int) {
	for {
		answer, err := a.ask(context.Background(), a.session, method, path, "")
		if err == nil {
			return answer.Status
		}
		if a.ctx.Err() != nil {
			return 0
		}
		a.pause()
	}
}

// say says something about a job, and writes it down. Sometimes it does so twice at the same time.
func (a *wildAgent) say(v verb, token, job, text, method, path, body string) answer {
	c := utterance{agent: a.id, verb: v, job: job, text: text}
	if !a.whim(rude, 8) {
		return a.sayOnce(c, token, method, path, body)
	}
	var other, one answer
	var both sync.WaitGroup
	both.Go(func() { other = a.sayOnce(c, token, method, path, body) })
	one = a.sayOnce(c, token, method, path, body)
	both.Wait()
	if other.Status == http.StatusOK {
		return other
	}
	return one
}

// sayOnce says something until there is an answer.
func (a *wildAgent) sayOnce(c utterance, token, method, path, body string) answer {
	for {
		c.sent = time.Now()
		answer, err := a.ask(context.Background(), token, method, "/v3/jobs/"+c.job+path, body)
		c.answered, c.status = time.Now(), answer.Status
		if err != nil {
			c.status = 0
		}
		a.history.add(c)
		if err == nil || a.ctx.Err() != nil {
			return answer
		}
		a.pause()
	}
}

// ask sends a request to the server that is there.
func (a *wildAgent) ask(ctx context.Context, token, method, path, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.server.Load().URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Token "+token)
	if token == adaToken {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return send(httpClient, req)
}

// pause lets the server come back.
func (a *wildAgent) pause() {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-a.ctx.Done():
	}
}
