package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

const (
	contendedBuilds = 40 // times -faults
	jobsPerBuild    = 50
	competingAgents = 50
	contentionToken = "svcct_contention"
)

// contentionFile has no rate limits for stacks.
var contentionFile = fmt.Sprintf(`
organizations:
  - slug: acme
    name: Acme Inc
    limits:
      rest_requests_per_second: 0
      stack_requests_per_second: {list-scheduled-jobs: 100000, batch-reserve: 100000, finish-job: 100000, default: 100000}
    members:
      - email: ada@acme.test
        role: admin
        access_tokens: [{description: one, token: %s, scopes: ["*"]}]
    clusters:
      - name: Default
        default: true
        queues: [{key: default, default: true}]
        agent_tokens: [{description: one, token: %s}]
    pipelines:
      - slug: contention
        name: Contention
        repository: https://git.example.test/contention.git
        cluster: Default
        configuration: "steps: [{command: work, parallelism: %d}]"
`, adaToken, contentionToken, jobsPerBuild)

// Two stacks and fifty agents compete for the same 2,000 jobs, or 10,000 with -faults 5. They use both replicas,
// and record the responses.
func TestServe_RunsEachJobOnceWhenStacksAndAgentsCompeteForThem(t *testing.T) {
	t.Run("one server on SQLite", func(t *testing.T) {
		folder := t.TempDir()
		competeFor(t, []string{"--data", folder}, "sqlite:"+folder+"/stackyard.db", 1)
	})
	t.Run("two replicas on PostgreSQL", func(t *testing.T) {
		url := dbtest.URL(t, db.PostgreSQL)
		competeFor(t, onPostgres(t, url), url, 2)
	})
}

func competeFor(t *testing.T, installation []string, database string, replicas int) {
	apply(t, installation, contentionFile)
	f := &contention{t: t, over: make(chan struct{}), records: map[string]*jobRecord{}}
	for range replicas {
		f.replicas = append(f.replicas, serveOn(t, installation))
	}
	f.schedule()
	began := time.Now()
	var all sync.WaitGroup
	defer all.Wait()
	defer f.end()
	for range competingAgents {
		all.Go(func() { (&competingAgent{competitor: f.competitor()}).live() })
	}
	for _, key := range []string{"red", "blue"} {
		all.Go(func() { (&competingStack{competitor: f.competitor(), key: key}).live() })
	}
	f.await()
	took := time.Since(began)
	f.end()
	all.Wait()
	f.check()
	f.checkDatabase(dbtest.Open(t, database))
	t.Logf("%d jobs in %s: %s", f.jobs(), took.Round(time.Millisecond), f.summary())
}

// A contention is the shared state of all competitors.
type contention struct {
	t        *testing.T
	replicas []*process
	ended    atomic.Int64 // jobs with an acknowledged end
	over     chan struct{}
	overOnce sync.Once

	mu      sync.Mutex
	lines   []*servertest.Caller
	records map[string]*jobRecord // by job
}

func (f *contention) builds() int { return contendedBuilds * *faults }

func (f *contention) jobs() int { return f.builds() * jobsPerBuild }

// schedule creates the builds and reads their jobs.
func (f *contention) schedule() {
	f.t.Helper()
	const atOnce = 4
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			for n := i; n < f.builds(); n += atOnce {
				answer := f.replicas[n%len(f.replicas)].ask(f.t, adaToken, "POST", pipelinesPath+"/contention/builds", `{"commit": "0123456789012345678901234567890123456789", "branch": "main"}`)
				build := decode[struct{ Jobs []struct{ ID string } }](f.t, answer.want(f.t, http.StatusCreated))
				f.mu.Lock()
				for _, j := range build.Jobs {
					f.records[j.ID] = &jobRecord{}
				}
				f.mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(f.records) != f.jobs() {
		f.t.Fatalf("%d jobs were made, want %d", len(f.records), f.jobs())
	}
}

// await waits until all jobs have ended.
func (f *contention) await() {
	f.t.Helper()
	for before := int64(-1); ; {
		select {
		case <-f.over:
			return
		case <-time.After(enough):
		}
		now := f.ended.Load()
		if now == before {
			f.t.Fatalf("%d of %d jobs have ended, and no more do", now, f.jobs())
		}
		before = now
	}
}

// end stops all competitors.
func (f *contention) end() {
	f.overOnce.Do(func() { close(f.over) })
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.lines {
		line.Close()
	}
}

func (f *contention) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// A competitor calls all replicas.
type competitor struct {
	*contention
	lines []*servertest.Caller
}

func (f *contention) competitor() competitor {
	c := competitor{contention: f}
	for _, p := range f.replicas {
		line, err := servertest.Dial(p.URL)
		if err != nil {
			f.t.Error(err)
			f.end()
			continue
		}
		c.lines = append(c.lines, line)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, c.lines...)
	return c
}

// ask calls a random replica, decodes the response into a value unless it is nil, and expects a status. It
// returns false when the competitor must stop.
func (c competitor) ask(method, path, token, body string, want int, into any) (at moment, ok bool) {
	line := c.lines[rand.IntN(len(c.lines))]
	at.sent = time.Now()
	status, answer, err := line.Ask(method, path, token, body)
	at.answered = time.Now()
	switch {
	case c.isOver():
		return at, false
	case err == nil && status != want:
		err = fmt.Errorf("status %d, want %d: %s", status, want, answer)
	case err == nil && into != nil:
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
		c.end()
	}
	return at, err == nil
}

// An agentSession is the result of an agent's registration.
type agentSession struct {
	ID    string
	Token string `json:"access_token"`
}

// register registers an agent with a token.
func (c competitor) register(token string) (s agentSession, ok bool) {
	if _, ok = c.ask("POST", "/v3/register", token, `{"name": "competingAgent-%random", "meta_data": []}`, http.StatusOK, &s); !ok {
		return s, false
	}
	_, ok = c.ask("POST", "/v3/connect", s.Token, "", http.StatusOK, nil)
	return s, ok
}

// run takes, starts and ends a job.
func (c competitor) run(s agentSession, how verb, job string) bool {
	path := "/v3/jobs/" + job
	var taken struct{ Token string }
	at, ok := c.ask("PUT", path+"/"+string(how), s.Token, "", http.StatusOK, &taken)
	if !ok {
		return false
	}
	c.note(job, func(s *jobRecord) *[]event { return &s.taken }, event{who: s.ID, moment: at})
	if _, ok = c.ask("PUT", path+"/start", taken.Token, `{"started_at": "2026-01-02T03:04:05Z"}`, http.StatusOK, nil); !ok {
		return false
	}
	at, ok = c.ask("PUT", path+"/finish", taken.Token, `{"exit_status": "0", "chunks_failed_count": 0}`, http.StatusOK, nil)
	if ok {
		c.noteEnd(job, event{who: s.ID, moment: at})
	}
	return ok
}

// A competingAgent is an agent that asks for jobs.
type competingAgent struct{ competitor }

func (f *competingAgent) live() {
	session, ok := f.register(contentionToken)
	for ok {
		var ping struct{ Job struct{ ID string } }
		var at moment
		at, ok = f.ask("GET", "/v3/ping", session.Token, "", http.StatusOK, &ping)
		if ok && ping.Job.ID != "" {
			f.note(ping.Job.ID, func(s *jobRecord) *[]event { return &s.offered }, event{who: session.ID, moment: at})
			ok = f.run(session, accepting, ping.Job.ID)
		}
	}
}
