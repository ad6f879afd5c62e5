package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/platform/db"
)

// fleetSize returns how many idle agents there are: 5,000, or what STACKYARD_BENCH_AGENTS says.
func fleetSize(b *testing.B) int {
	if text := os.Getenv("STACKYARD_BENCH_AGENTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return 5_000
}

// benchmarkFleet measures the memory and the processor time of agents that wait for jobs.
func benchmarkFleet(b *testing.B, engine db.Engine) {
	const window = 20 * time.Second
	for b.Loop() {
		database := loadDatabase(b, engine)
		apply(b, database, loadFile)
		p := serveOn(b, database)
		p.get(b, "", "/readyz")
		empty, size := p.kernelCount(b, "status", "VmRSS"), fleetSize(b)
		fleet := registerFleet(b, p.URL, size)
		var pings atomic.Int64
		var ended atomic.Bool
		var waiting sync.WaitGroup
		for _, a := range fleet {
			waiting.Go(func() {
				for !ended.Load() {
					if err := a.waitIdle(); err != nil {
						if !ended.Load() {
							b.Error(err)
						}
						return
					}
					pings.Add(1)
				}
			})
		}
		time.Sleep(window) // until garbage of the registrations is collected and pings are held for longer
		before, counts, cpu := pings.Load(), p.counts(b), p.cpu(b)
		time.Sleep(window) // idle agents do nothing but wait
		used, answered := p.cpu(b)-cpu, float64(pings.Load()-before)
		after := p.counts(b)
		rss := p.kernelCount(b, "status", "VmRSS")
		ended.Store(true)
		p.kill()
		waiting.Wait()
		b.ReportMetric(float64(rss-empty)/float64(size), "KB-RSS/agent")
		b.ReportMetric(float64(rss)/1024, "MB-RSS")
		b.ReportMetric(used.Seconds()*1000/answered, "server-CPU-ms/ping")
		b.ReportMetric(answered/window.Seconds(), "pings/s")
		b.ReportMetric(100*used.Seconds()/window.Seconds(), "%-of-a-core")
		b.ReportMetric((after["statements"]-counts["statements"])/answered, "statements/ping")
	}
	b.ReportMetric(0, "ns/op")
}

// registerFleet registers and connects agents. Each has a connection of its own.
func registerFleet(b *testing.B, url string, size int) []*loadAgent {
	b.Helper()
	agents := make([]*loadAgent, size)
	var next atomic.Int64
	err := together(min(size, 50), func(int) error {
		for i := next.Add(1) - 1; i < int64(size); i = next.Add(1) - 1 {
			c, err := servertest.Dial(url)
			if err != nil {
				return err
			}
			agents[i] = &loadAgent{Caller: c}
			b.Cleanup(func() { c.Close() })
			var registered struct {
				AccessToken string `json:"access_token"`
			}
			if err := c.Call("POST", "/v3/register", loadToken, fmt.Sprintf(`{"name": "load-%d", "hostname": "load", "os": "linux", "arch": "amd64", "version": "3.75.1", "build": "1", "meta_data": ["os=linux", "size=large"]}`, i), &registered); err != nil {
				return err
			}
			agents[i].token = registered.AccessToken
			if err := c.Call("POST", "/v3/connect", registered.AccessToken, "", nil); err != nil {
				return err
			}
			c.Idle()
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return agents
}

// waitIdle pings once and expects no job.
func (a *loadAgent) waitIdle() error {
	job, err := a.ping()
	if err == nil && job != "" {
		err = fmt.Errorf("got job %s", job)
	}
	a.Idle()
	return err
}

// ping returns the id of the job that the agent is offered, or "".
func (a *loadAgent) ping() (job string, err error) {
	var offer struct{ Job struct{ ID string } }
	status, answer, err := a.Ask("GET", "/v3/ping", a.token, "")
	switch {
	case err != nil:
		return "", err
	case status != 200:
		return "", fmt.Errorf("ping: status %d: %s", status, answer)
	case len(answer) <= len("{}\n"):
		return "", nil
	}
	err = json.Unmarshal(answer, &offer)
	return offer.Job.ID, err
}

const (
	reactionAgents = 1_000
	reactionBuilds = 500
)

// benchmarkReaction measures the time from the request that creates a build until an agent has accepted its job, one
// build after another, with many idle agents.
func benchmarkReaction(b *testing.B, engine db.Engine) {
	database := loadDatabase(b, engine)
	apply(b, database, loadFile)
	p := serveOn(b, database)
	held := make(chan time.Time, 1)
	failed := make(chan error, reactionAgents)
	for _, a := range registerFleet(b, p.URL, reactionAgents) {
		go func() { failed <- a.holdJobs(held) }()
	}
	create, err := dialRepeater(p.URL, "POST", pipelinesPath+"/one/builds", loadBuild, "Authorization: Bearer "+adaToken, "Content-Type: application/json")
	if err != nil {
		b.Fatal(err)
	}
	defer create.close()
	eventually(b, waitLimit, "all agents wait", func() bool { return p.metric(b, "stackyard_dispatch_waiting_agents") == reactionAgents })
	var took []time.Duration
	for b.Loop() {
		for range reactionBuilds {
			began := time.Now()
			if err := create.do(); err != nil {
				b.Fatal(err)
			}
			select {
			case at := <-held:
				took = append(took, at.Sub(began))
			case err := <-failed:
				b.Fatal(err)
			}
		}
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-create-to-held-p50")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "ms-create-to-held-p99")
	b.ReportMetric(0, "ns/op")
}

// holdJobs accepts jobs, reports when each is held, and runs them, until the connection is closed.
func (a *loadAgent) holdJobs(held chan<- time.Time) error {
	for {
		job, err := a.ping()
		if err != nil {
			return err
		}
		if job == "" {
			continue
		}
		var accepted struct{ Token string }
		if err := a.Call("PUT", "/v3/jobs/"+job+"/accept", a.token, "", &accepted); err != nil {
			return err
		}
		at := time.Now()
		if err := a.finish(job, accepted.Token); err != nil {
			return err
		}
		held <- at
	}
}
