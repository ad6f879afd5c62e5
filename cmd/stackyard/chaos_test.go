package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const chaosAgentToken = "svcct_chaos"

// chaosFile has a pipeline whose jobs are retried when their agents are lost.
const chaosFile = `
organizations:
  - slug: acme
    name: Acme Inc
    limits: {rest_requests_per_second: 0}
    members:
      - email: ada@acme.test
        role: admin
        access_tokens: [{description: one, token: ` + adaToken + `, scopes: ["*"]}]
    clusters:
      - name: Default
        default: true
        queues: [{key: default, default: true}]
        agent_tokens: [{description: one, token: ` + chaosAgentToken + `}]
    pipelines:
      - slug: chaos
        name: Chaos
        repository: https://git.example.test/chaos.git
        cluster: Default
        configuration: |
          steps:
            - {command: early, parallelism: 8, retry: {automatic: [{exit_status: -1, limit: 10}]}}
            - {wait: ~, continue_on_failure: true}
            - {command: late, parallelism: 2, retry: {automatic: [{exit_status: -1, limit: 10}]}}
`

const (
	chaosBuilds      = pipelinesPath + "/chaos/builds"
	unfinishedBuilds = chaosBuilds + "?state[]=scheduled&state[]=running&state[]=failing"
)

var chaosSeed = flag.Uint64("chaos-seed", 0, "what TestServe_GivesAJobToOneAgentWhateverHappens begins with, to come close to a run that failed")

const (
	chaosAgents = 8
	chaosKills  = 6
	// enough is the time for agents to be lost, and for the next server to finish the work of a killed one.
	enough = 2 * time.Minute
	// maxFrozen limits how many agents freeze at the same time, so that others have work.
	maxFrozen = 3
)

// Agents that freeze, leave, return and lie take jobs from a server that is killed repeatedly. They record
// their reports and the responses. Every acknowledged report must have had its effect, once.
func TestServe_GivesAJobToOneAgentWhateverHappens(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		seed := *chaosSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Logf("to begin alike: -chaos-seed %d", seed)
		random := rand.New(rand.NewPCG(seed, chaosAgents))
		apply(t, installation, chaosFile)
		c := &chaos{t: t, installation: append(installation, "--agent-lost-after", "15s")}
		c.serve()
		ctx, leave := context.WithCancel(t.Context())
		var agents sync.WaitGroup
		defer agents.Wait()
		defer leave()
		for i := range uint64(chaosAgents) {
			agents.Go(func() { (&wildAgent{chaos: c, random: rand.New(rand.NewPCG(seed, i))}).live(ctx) })
		}

		c.mode.Store(wild)
		for range chaosKills * *faults {
			c.build()
			c.build()
			c.waitAnswers(20 + random.IntN(60))
			c.restart()
		}
		c.mode.Store(rude)
		eventually(t, enough, "the jobs of agents that are frozen or gone are done by others", func() bool { return c.frozen.Load() == 0 && c.allEnded() })
		c.build()
		c.waitAnswers(20)
		c.restart()
		c.mode.Store(mild)
		eventually(t, enough, "all builds have ended", c.allEnded)
		leave()
		agents.Wait()

		jobs := c.outcome()
		c.history.check(t, jobs)
		t.Logf("%d jobs of %d builds; %s", len(jobs), c.builds, c.history.summary())
	})
}

// mode is how agents behave.
type mode = int32

const (
	mild mode = iota // correct
	rude             // they lie and repeat reports
	wild             // they also freeze, leave and vanish
)

// chaos is an installation with its builds and the history of its agents.
type chaos struct {
	t            *testing.T
	installation []string
	server       atomic.Pointer[process]
	beside       atomic.Pointer[process] // another replica, which agents also use; nil: none
	builds       int
	mode         atomic.Int32
	frozen       atomic.Int32
	history      history
	outages      bool // the database is stopped too: status 503 is no response
}

func (c *chaos) serve() {
	c.t.Helper()
	c.server.Store(serveOn(c.t, c.installation))
}

func (c *chaos) restart() {
	c.t.Helper()
	c.server.Load().kill()
	c.serve()
}

func (c *chaos) build() {
	c.t.Helper()
	c.server.Load().ask(c.t, adaToken, "POST", chaosBuilds, `{"commit": "0123456789012345678901234567890123456789", "branch": "main"}`).want(c.t, http.StatusCreated)
	c.builds++
}

// waitAnswers waits for n more responses to agents.
func (c *chaos) waitAnswers(n int) {
	c.t.Helper()
	n += c.history.answers()
	eventually(c.t, waitLimit, "agents are answered", func() bool { return c.history.answers() >= n })
}

// A chaosJob is the final state of a job in the REST API.
type chaosJob struct {
	ID           string
	Type         string
	State        string
	ExitStatus   *int    `json:"exit_status"`
	SignalReason *string `json:"signal_reason"`
	Retried      bool
	RetriedIn    string `json:"retried_in_job_id"`
	Agent        *struct{ ID string }
	build        int
	log          string
	metaData     map[string]string // of the build
}

var endedStates = []string{"passed", "failed", "canceled", "timed_out", "expired", "broken", "skipped", "waiting_failed"}

func (j *chaosJob) ended() bool { return slices.Contains(endedStates, j.State) }

func (c *chaos) allEnded() bool {
	live := decode[[]struct{}](c.t, c.server.Load().get(c.t, adaToken, unfinishedBuilds))
	return len(live) == 0
}

// outcome returns all jobs that agents have run, and checks that builds match their jobs.
func (c *chaos) outcome() map[string]*chaosJob {
	jobs := make(map[string]*chaosJob)
	p := c.server.Load()
	for number := 1; number <= c.builds; number++ {
		build := decode[struct {
			State    string
			Jobs     []*chaosJob
			MetaData map[string]string `json:"meta_data"`
		}](c.t, p.get(c.t, adaToken, fmt.Sprintf("%s/%d?include_retried_jobs=true", chaosBuilds, number)))
		last, want := 0, "passed"
		for _, j := range build.Jobs {
			if j.Type != "script" {
				continue
			}
			if !j.ended() {
				c.t.Errorf("the job %s of build %d is %s", j.ID, number, j.State)
			}
			if !j.Retried {
				last++
				if j.State != "passed" {
					want = "failed"
				}
			}
			j.build, j.metaData = number, build.MetaData
			j.log = decode[struct{ Content string }](c.t, p.get(c.t, adaToken, fmt.Sprintf("%s/%d/jobs/%s/log", chaosBuilds, number, j.ID))).Content
			jobs[j.ID] = j
		}
		if build.State != want || last != 10 {
			c.t.Errorf("build %d is %s, want %s; it has %d jobs that were not tried again, want 10", number, build.State, want, last)
		}
	}
	return jobs
}
