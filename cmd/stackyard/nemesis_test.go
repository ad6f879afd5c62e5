package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db/dbtest"
)

// wrongClockName runs the program on a machine whose clock is wrong.
const wrongClockName = "stackyard-with-wrong-clock"

// mainWithWrongClock is main with a clock that is ahead.
func mainWithWrongClock() {
	machineClock = func() time.Time { return core.SystemClock().Add(7 * time.Minute) }
	main()
}

// A nemesis injects faults into replicas behind a balancer and into their database.
type nemesis struct {
	t            *testing.T
	installation []string
	postgres     *dbtest.Server
	balancer     *balancer
	replicas     []*process
	faults       map[string]int // by kind
}

// startReplicas starts replicas. The last is on a machine with a wrong clock.
func (n *nemesis) startReplicas(count int) {
	n.t.Helper()
	n.balancer = newBalancer(n.t, count)
	n.replicas = make([]*process, count)
	n.faults = map[string]int{}
	for i := range n.replicas {
		n.startReplica(i)
	}
}

func (n *nemesis) startReplica(i int) {
	n.t.Helper()
	name := "stackyard"
	if i == len(n.replicas)-1 {
		name = wrongClockName
	}
	p := spawn(n.t, program(name, append([]string{"serve", "--listen", "127.0.0.1:0"}, n.installation...)...))
	p.waitReady(n.t)
	n.replicas[i] = p
	n.balancer.connect(i, p)
}

// torment injects each kind of fault once, in random order, and again until some time has passed. It waits for work before
// each. Afterwards all replicas run and are connected.
func (n *nemesis) torment(ctx context.Context, during time.Duration, waitWork func()) {
	for until := time.Now().Add(during); ; {
		for _, i := range rand.Perm(len(faultKinds)) {
			waitWork()
			kind := faultKinds[i]
			n.inject(ctx, kind, rand.IntN(len(n.replicas)))
			n.faults[kind]++
			if n.t.Failed() {
				return
			}
		}
		if time.Now().After(until) {
			return
		}
	}
}

var faultKinds = []string{"kill", "stop", "cut", "crash"}

// inject injects a fault and ends it.
func (n *nemesis) inject(ctx context.Context, kind string, replica int) {
	switch kind {
	case "kill":
		n.replicas[replica].kill()
		n.startReplica(replica)
	case "stop":
		process := n.replicas[replica].cmd.Process
		process.Signal(syscall.SIGSTOP)
		time.Sleep(rand.N(3 * time.Second))
		process.Signal(syscall.SIGCONT)
	case "cut":
		n.balancer.cut(replica, true)
		time.Sleep(rand.N(2 * time.Second))
		n.balancer.cut(replica, false)
	case "crash":
		if err := n.postgres.Crash(ctx); err != nil {
			n.t.Error(err)
		}
	}
}

func (n *nemesis) summary() string {
	return fmt.Sprintf("%d times a replica was killed, %d times stopped for a while, %d times cut off; PostgreSQL crashed %d times", n.faults["kill"], n.faults["stop"], n.faults["cut"], n.faults["crash"])
}

// A sighting is a state of a job that a user saw.
type sighting struct {
	moment
	state string
}

// sightings are what users saw of jobs.
type sightings struct {
	mu    sync.Mutex
	byJob map[string][]sighting
	n     int
}

func (s *sightings) add(job string, seen sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byJob == nil {
		s.byJob = map[string][]sighting{}
	}
	s.byJob[job] = append(s.byJob[job], seen)
	s.n++
}

// progress is how far a job is in each state. A job that no agent has accepted can return to its queue.
func progress(state string) int {
	switch {
	case slices.Contains(endedStates, state):
		return 4
	case state == "canceling" || state == "timing_out":
		return 3
	case state == "running":
		return 2
	case state == "accepted":
		return 1
	default:
		return 0
	}
}

// problems returns jobs that were seen in an earlier state after a later one.
func (s *sightings) problems() (problems []string) {
	for job, seen := range s.byJob {
		for i, later := range seen {
			for _, earlier := range seen[:i] {
				if !later.sent.After(earlier.answered) {
					continue // concurrent
				}
				if was, is := progress(earlier.state), progress(later.state); is < was || was == 4 && earlier.state != later.state {
					problems = append(problems, fmt.Sprintf("the job %s was %s, and then %s", job, earlier.state, later.state))
				}
			}
		}
	}
	return problems
}

func TestSightings_FindsStatesThatGoBack(t *testing.T) {
	at := func(second int) moment {
		return moment{time.Unix(int64(10*second), 0), time.Unix(int64(10*second+1), 0)}
	}
	for _, c := range []struct {
		what     string
		seen     []sighting
		problems int
	}{
		{"forward", []sighting{{at(1), "scheduled"}, {at(2), "running"}, {at(3), "passed"}}, 0},
		{"back to the queue before it was accepted", []sighting{{at(1), "assigned"}, {at(2), "scheduled"}}, 0},
		{"back to the queue after it was accepted", []sighting{{at(1), "accepted"}, {at(2), "scheduled"}}, 1},
		{"running after its end", []sighting{{at(1), "failed"}, {at(2), "running"}}, 1},
		{"two ends", []sighting{{at(1), "failed"}, {at(2), "passed"}}, 1},
		{"seen at the same time", []sighting{{at(1), "passed"}, {at(1), "running"}}, 0},
	} {
		s := &sightings{}
		for _, seen := range c.seen {
			s.add("job", seen)
		}
		if got := s.problems(); len(got) != c.problems {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
