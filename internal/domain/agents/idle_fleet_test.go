package agents_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stackyard/internal/app/server/servertest"
	"stackyard/internal/domain/agents"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

func TestIdleFleet_AsksNothingOfTheDatabase(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servertest.Server) {
		const agents = 100
		fleet := newMembers(t, s.URL, agents)
		speak := func(m *member) error {
			job, err := m.ping()
			if err != nil || job != "" {
				return fmt.Errorf("job %q, %w", job, err)
			}
			return m.Call("POST", "/v3/heartbeat", m.token, "{}", nil)
		}
		concurrently(t, agents, func(i int) error { return speak(fleet[i]) })
		counter := dbtest.CountStatements(s.DB)
		for range 5 {
			s.Clock.Advance(10 * time.Second)
			concurrently(t, agents, func(i int) error { return speak(fleet[i]) })
		}
		if asked := counter.Take(); asked.Total() > 0 {
			t.Errorf("statements:\n%s", asked)
		}
	})
}

// BenchmarkIdleFleet measures one minute of 5,000 connected idle agents: all wait for a job, ping again after a
// wait, and send heartbeats. It reports the server's memory per agent, with both ends of the connections, and
// the statements of the minute. The number of statements does not depend on the number of agents: two flushes
// of presence and, where replicas share the database, the bus poll, which also compares clocks. There must be
// no others.
func BenchmarkIdleFleet(b *testing.B) {
	for _, engine := range engines {
		b.Run(string(engine), func(b *testing.B) { benchmarkIdleFleet(b, engine) })
	}
}

func benchmarkIdleFleet(b *testing.B, engine db.Engine) {
	const size = 5_000
	var settled atomic.Bool
	s := serve(b, dbtest.New(b, engine), func(idle time.Duration) time.Duration {
		if settled.Load() {
			return agents.DefaultPingWait(max(idle, time.Minute))
		}
		return 20 * time.Second // until all agents are connected
	})
	empty := memory()
	fleet := newMembers(b, s.URL, size)
	for _, m := range fleet {
		if err := m.Send("GET", "/v3/ping", m.token, ""); err != nil {
			b.Fatal(err)
		}
	}
	for waiting(b, s) < size {
		time.Sleep(10 * time.Millisecond)
	}
	each := float64(memory()-empty) / size
	settled.Store(true)

	idle := &idleFleet{over: make(chan struct{})}
	idle.settling.Add(size)
	for _, m := range fleet {
		idle.running.Go(func() { idle.wait(b, m) })
	}
	idle.settling.Wait()
	counter := dbtest.CountStatements(s.DB)
	var flush, poll, polls, pings int
	for b.Loop() {
		counter.Take()
		before := idle.pings.Load()
		time.Sleep(time.Minute) // idle agents do nothing but wait
		asked := counter.Take()
		pings += int(idle.pings.Load() - before)
		b.Logf("in a minute:\n%s", asked)
		flush += asked.Of("agent_presence", "identity_epoch")
		jobs := asked.Of("WITH RECURSIVE present")
		polls += jobs
		poll += jobs + asked.Of("WITH kinds", "clock_timestamp", "a.queue_id, j.id, j.state FROM agents a")
		if asked.Total() > 0 {
			b.Errorf("besides, there were:\n%s", asked)
		}
	}
	idle.end(fleet)
	b.ReportMetric(float64(flush)/float64(b.N), "flush-statements/min")
	b.ReportMetric(float64(polls)/float64(b.N), "safety-polls/min")
	b.ReportMetric(float64(poll)/float64(b.N), "safety-poll-statements/min")
	b.ReportMetric(0, "other-statements/min")
	b.ReportMetric(float64(pings)/float64(b.N), "pings/min")
	b.ReportMetric(each/1024, "KiB/agent")
	b.ReportMetric(0, "ns/op")
}

// idleFleet counts the requests of agents.
type idleFleet struct {
	over     chan struct{}
	running  sync.WaitGroup
	settling sync.WaitGroup // done when each agent has had its first response
	pings    atomic.Int64   // answered pings
}

// wait keeps an agent pinging until the end.
func (f *idleFleet) wait(b *testing.B, m *member) {
	const heartbeats = 30 * time.Second
	beat := time.Now().Add(rand.N(heartbeats))
	_, _, err := m.Receive()
	f.settling.Done()
	for err == nil {
		f.pings.Add(1)
		if time.Now().After(beat) {
			beat = beat.Add(heartbeats)
			err = m.Call("POST", "/v3/heartbeat", m.token, "{}", nil)
		}
		if err == nil {
			_, err = m.ping()
		}
	}
	select {
	case <-f.over:
	default:
		b.Error(err)
	}
}

// end closes the connections of all agents.
func (f *idleFleet) end(fleet []*member) {
	close(f.over)
	for _, m := range fleet {
		m.Close()
	}
	f.running.Wait()
}

// memory returns the memory in use after garbage collection.
func memory() int64 {
	runtime.GC()
	runtime.GC() // objects with a finalizer need two collections
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc + now.StackInuse)
}

// waiting returns the number of agents that wait for a job.
func waiting(b *testing.B, s *servertest.Server) (n int) {
	b.Helper()
	resp, err := http.Get(s.URL + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "stackyard_dispatch_waiting_agents "); ok {
			fmt.Sscan(text, &n)
		}
	}
	return n
}
