package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A verb is the kind of an agent's report.
type verb string

const (
	pinging   verb = "ping"
	accepting verb = "accept"
	acquiring verb = "acquire"
	starting  verb = "start"
	printing  verb = "chunk"
	finishing verb = "finish"
	setting   verb = "set meta-data"   // text: KEY=VALUE
	storing   verb = "upload artifact" // text: ID=CONTENT
	canceling verb = "cancel"          // by a user
	retrying  verb = "retry"           // by a user; text: ID of the new job
)

// An exchange is a report of an agent with its response.
type exchange struct {
	agent    string
	verb     verb
	job      string // the job, or the job that a ping returned
	text     string // the exit status or the printed text
	status   int    // 0: no response
	sent     time.Time
	answered time.Time
}

func (c exchange) acknowledged() bool { return c.status >= 200 && c.status < 300 }

func (c exchange) takes() bool { return c.verb == accepting || c.verb == acquiring }

func (c exchange) byUser() bool { return c.verb == canceling || c.verb == retrying }

// mayCancel reports whether the job can have been canceled.
func (c exchange) mayCancel() bool { return c.verb == canceling && (c.status == 0 || c.acknowledged()) }

func (c exchange) String() string {
	const clock = "05.000"
	return fmt.Sprintf("%s–%s agent %s: %s %q: %d", c.sent.Format(clock), c.answered.Format(clock), c.agent, c.verb, strings.TrimSpace(c.text), c.status)
}

// A history contains all reports of agents.
type history struct {
	mu    sync.Mutex
	calls []exchange
	jobs  []string // known to agents
	known map[string]bool
	ended map[string]bool // jobs whose end was acknowledged
	n     int             // with a response
}

func (h *history) add(c exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, c)
	if c.status != 0 {
		h.n++
	}
	if c.job != "" && c.acknowledged() && !h.known[c.job] {
		if h.known == nil {
			h.known = map[string]bool{}
		}
		h.known[c.job] = true
		h.jobs = append(h.jobs, c.job)
	}
	if c.verb == finishing && c.acknowledged() {
		if h.ended == nil {
			h.ended = map[string]bool{}
		}
		h.ended[c.job] = true
	}
}

// endedJobs returns for how many jobs the end was acknowledged.
func (h *history) endedJobs() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ended)
}

// after returns the calls from an index on.
func (h *history) after(i int) []exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls[i:])
}

// answers returns the number of calls with a response.
func (h *history) answers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// recentJobs returns the newest jobs that some agent knows.
func (h *history) recentJobs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.jobs[max(0, len(h.jobs)-8*chaosAgents):])
}

func (h *history) summary() string {
	var acknowledged, refused, unanswered int
	for _, c := range h.calls {
		switch {
		case c.status == 0:
			unanswered++
		case c.acknowledged():
			acknowledged++
		default:
			refused++
		}
	}
	return fmt.Sprintf("%d calls were acknowledged, %d refused, %d not answered", acknowledged, refused, unanswered)
}

// check compares acknowledged reports with the final jobs.
func (h *history) check(t *testing.T, jobs map[string]*chaosJob) {
	byJob := make(map[string][]exchange)
	for _, c := range h.calls {
		if c.status >= 500 {
			t.Errorf("the server failed: %s", c)
		}
		if c.job != "" {
			byJob[c.job] = append(byJob[c.job], c)
		}
	}
	for id, calls := range byJob {
		j := jobs[id]
		if j == nil {
			if slices.ContainsFunc(calls, exchange.acknowledged) {
				t.Errorf("the job %s was known to agents and is gone", id)
			}
			continue
		}
		for _, problem := range j.problems(calls) {
			t.Errorf("the job %s of build %d, %s: %s", id, j.build, j.State, problem)
		}
		if t.Failed() {
			for _, c := range calls {
				t.Log(c)
			}
			t.Fatalf("its log:\n%s", j.log)
		}
	}
	canceled := slices.ContainsFunc(h.calls, exchange.mayCancel)
	for id, j := range jobs {
		if byJob[id] == nil && !(canceled && j.State == "waiting_failed") {
			t.Errorf("the job %s of build %d is %s, and no agent was offered it", id, j.build, j.State)
		}
	}
}

// problems returns contradictions between the acknowledged reports about a job.
func (j *chaosJob) problems(calls []exchange) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var took, finished *exchange
	for i, c := range calls {
		if c.acknowledged() && c.takes() {
			if took == nil {
				took = &calls[i]
			} else if took.agent != c.agent {
				complain("two agents have it: %s and %s", *took, c)
			}
		}
		if c.acknowledged() && c.verb == finishing {
			if finished == nil {
				finished = &calls[i]
			} else if finished.text != c.text {
				complain("it ended twice: %s and %s", *finished, c)
			}
		}
	}
	canceled := slices.ContainsFunc(calls, exchange.mayCancel)
	if took == nil {
		if !canceled {
			complain("no agent had it")
		}
		return problems
	}
	for _, c := range calls {
		switch {
		case c.verb == canceling && c.acknowledged() && j.State != "canceled":
			complain("it was not canceled: %s", c)
		case c.verb == retrying && c.acknowledged() && j.RetriedIn != c.text:
			complain("%q is its retry: %s", j.RetriedIn, c)
		case c.verb == pinging && c.sent.After(took.answered):
			complain("it was offered again: %s", c)
		case c.verb == printing && c.acknowledged() && strings.Count(j.log, c.text) != 1:
			complain("its log has it %d times: %s", strings.Count(j.log, c.text), c)
		case c.verb == printing && c.status >= 400 && strings.Contains(j.log, c.text):
			complain("its log has what was refused: %s", c)
		case c.verb != pinging && !c.byUser() && c.acknowledged() && c.agent != took.agent:
			complain("it is that of another agent: %s", c)
		case c.verb == setting && c.acknowledged() && !j.hasMetaData(c.text):
			complain("its build lacks it: %s", c)
		}
	}
	if j.Agent == nil || j.Agent.ID != took.agent {
		complain("agent %s had it, and %v is shown", took.agent, j.Agent)
	}
	switch lost := j.SignalReason != nil && *j.SignalReason == "agent_lost"; {
	case canceled && finished == nil:
	case j.ExitStatus == nil:
		complain("it has no exit status")
	case finished != nil && (lost || fmt.Sprint(*j.ExitStatus) != finished.text):
		complain("it has the exit status %d, not that of %s", *j.ExitStatus, *finished)
	case finished == nil && !lost:
		complain("it has the exit status %d, but was never ended", *j.ExitStatus)
	}
	return problems
}

// hasMetaData reports whether the job's build has KEY=VALUE.
func (j *chaosJob) hasMetaData(assignment string) bool {
	key, value, _ := strings.Cut(assignment, "=")
	return j.metaData[key] == value
}
