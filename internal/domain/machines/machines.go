// Package machines runs the agents of hosted queues: it is a provider.
//
// A provider is a client of the same mechanics as a stack. A [Machine] reserves one job, gets a token for it, and runs
// one agent with the token, which acquires the job, runs it and exits; then the machine is removed (run.go). The row of
// a machine is its lifecycle: it is written before anything is started, and removed after everything has ended. A
// server that was killed removes the machines of its host when it is back, and any server those of a host that does
// not come back (recover.go).
//
// The local provider runs machines on the server itself: containers of the image of the queue if buildah is installed,
// otherwise processes that share the system of the server but not its folder and environment (compute.go).
package machines

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"stackyard/internal/domain/agentimages"
	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
)

// A State is a part of a machine's life.
type State string

const (
	Creating State = "creating" // its container is made
	Idle     State = "idle"     // it waits for a job
	Running  State = "running"  // its agent runs
	Removing State = "removing"
)

// A Machine runs one job of a hosted queue.
type Machine struct {
	ID             string
	OrganizationID string
	ClusterID      string
	QueueID        string
	State          State
	JobID          string
	ImageRef       string
	Shape          clusters.Shape

	container string // "": a process
}

// Settings configure the local provider.
type Settings struct {
	// Max is how many machines run at once; 0: this server runs none.
	Max int
	// Warm is how many machines of each queue wait for jobs.
	Warm int
	// Program is the path of the stackyard binary, which is the agent.
	Program string
	// Endpoint is the URL of the agent API, for agents on this host; "": that of the public URL.
	Endpoint string
	// Hidden are folders that processes of jobs do not see.
	Hidden []string
}

// Times of machines.
const (
	// lease is how long a machine is kept after its host was last seen; the host renews it.
	lease      = 2 * time.Minute
	renewEvery = 30 * time.Second
	// tokenLife is how long an agent has to register and acquire its job.
	tokenLife = 5 * time.Minute
	// pollEvery is how often queues are read without being woken.
	pollEvery = 5 * time.Second
	// cleanUpTimeout bounds removing a machine, stopTimeout that when the server stops. What is left is removed by the
	// next server.
	cleanUpTimeout = 30 * time.Second
	stopTimeout    = 3 * time.Second
)

// Parts are the dependencies of a Service.
type Parts struct {
	DB     *db.DB
	Bus    *bus.Bus
	Agents *agents.Service
	Builds *lifecycle.Service
	Images *agentimages.Service
	Public core.PublicURL
	Clock  core.Clock
	Log    *slog.Logger
	Settings
}

// Service is the local provider.
type Service struct {
	Parts
	host string

	mu      sync.Mutex
	running int
	idle    map[string][]*Machine // by queue
	warming map[string]int        // machines of a queue that become idle
	// warmAgain is when an idle machine of a queue can be created again after a failure.
	warmAgain map[string]time.Time
	changed   chan struct{} // a machine has ended
	jobs      sync.WaitGroup
}

// New returns a Service.
func New(p Parts) *Service {
	if p.Endpoint == "" {
		p.Endpoint = p.Public.To("v3")
	}
	return &Service{Parts: p, host: p.Images.Host(), idle: map[string][]*Machine{}, warming: map[string]int{}, warmAgain: map[string]time.Time{}, changed: make(chan struct{}, 1)}
}

// Run runs machines until ctx ends. Then it kills them: their jobs fail when their agents are lost.
func (s *Service) Run(ctx context.Context) error {
	if s.Max <= 0 {
		return nil
	}
	if err := s.removeLeft(ctx); err != nil {
		s.Log.Error("remove machines of the previous process failed", "error", err)
	}
	go s.renew(ctx)
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		s.removeIdle(last)
	}()
	defer s.jobs.Wait()
	for ctx.Err() == nil {
		queues, err := s.scan(ctx)
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("scan hosted queues failed", "error", err)
		}
		s.await(ctx, queues)
	}
	return nil
}

// await waits until a queue may have a job or a machine has ended.
func (s *Service) await(ctx context.Context, queues []clusters.HostedQueue) {
	topics := []string{clusters.QueueRemoved}
	for _, queue := range queues {
		topics = append(topics, dispatch.Topic(queue.ID))
	}
	woken, cancel := s.Bus.Subscribe(topics...)
	defer cancel()
	select {
	case <-woken:
	case <-s.changed:
	case <-time.After(pollEvery):
	case <-ctx.Done():
	}
}

// scan starts machines for the jobs of all hosted queues, as many as the limit allows, and fills the warm pools.
func (s *Service) scan(ctx context.Context) (queues []clusters.HostedQueue, err error) {
	err = s.DB.Read(ctx, func(q *db.Q) (err error) {
		queues, err = clusters.HostedQueues(q, clusters.Linux)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.dropStale(ctx, queues)
	// One job of each queue in turn, so that no queue takes all machines.
	for waiting := queues; len(waiting) > 0; {
		var more []clusters.HostedQueue
		for _, queue := range waiting {
			started, err := s.start(ctx, queue)
			if err != nil {
				return queues, err
			}
			if started {
				more = append(more, queue)
			}
		}
		waiting = more
	}
	for _, queue := range queues {
		s.warm(ctx, queue)
	}
	return queues, nil
}

// start reserves a job of a queue and runs a machine for it. It reports false if there is no job or no capacity.
func (s *Service) start(ctx context.Context, queue clusters.HostedQueue) (bool, error) {
	m, taken := s.take(queue)
	if !taken {
		return false, nil
	}
	now := s.Clock()
	err := s.DB.Write(ctx, func(q *db.Q) (err error) {
		m.JobID, err = dispatch.ReserveNext(q, queue.ID, m.ID, now.Add(tokenLife))
		if err != nil || m.JobID == "" {
			return err
		}
		m.State = Running
		return save(q, s.host, m, now)
	})
	if err != nil || m.JobID == "" {
		s.giveBack(queue, m)
		return false, err
	}
	s.jobs.Go(func() {
		defer s.release()
		s.run(ctx, m)
	})
	return true, nil
}

// take returns an idle machine of a queue, or a new one, if the limit allows.
func (s *Service) take(queue clusters.HostedQueue) (*Machine, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle := s.idle[queue.ID]; len(idle) > 0 {
		s.idle[queue.ID] = idle[1:]
		return idle[0], true
	}
	if s.running >= s.Max {
		return nil, false
	}
	s.running++
	return newMachine(queue, Creating), true
}

func newMachine(queue clusters.HostedQueue, state State) *Machine {
	return &Machine{
		ID: core.NewID(), OrganizationID: queue.OrganizationID, ClusterID: queue.ClusterID, QueueID: queue.ID,
		State: state, ImageRef: queue.ImageRef, Shape: queue.Shape,
	}
}

// giveBack returns a machine that got no job.
func (s *Service) giveBack(queue clusters.HostedQueue, m *Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.State == Creating {
		s.running--
		return
	}
	m.State, m.JobID = Idle, ""
	s.idle[queue.ID] = append(s.idle[queue.ID], m)
}

// release lets another machine start.
func (s *Service) release() {
	s.mu.Lock()
	s.running--
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Background registers the tasks of machines.
func (s *Service) Background(r *tasks.Runner) { r.Sweep("machines-lost", lease, s.removeLost) }
