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
//
// The remote provider runs them on other machines, which the settings list and which are here called places, so as not
// to have the same name for two things (places.go, ssh.go). They go on without the server, and the next one adopts them
// (remote.go).
package machines

import (
	"context"
	"log/slog"
	"slices"
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
	"stackyard/internal/platform/seal"
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
	Place          string // its name; "": this server

	container string // "": a process
}

// Settings configure the provider.
type Settings struct {
	// Max is how many machines run at once; 0: this server runs none.
	Max int
	// Places are the machines of the remote provider; none: the local provider.
	Places []Place
	// Warm is how many machines of each queue wait for jobs.
	Warm int
	// Program is the path of the stackyard binary, which is the agent.
	Program string
	// Endpoint is the URL of the agent API, for agents on this host; "": under the public URL.
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
	Key    seal.Key
	Public core.PublicURL
	Clock  core.Clock
	Log    *slog.Logger
	Settings
}

// Service is the provider.
type Service struct {
	Parts
	host     string
	desktops seal.Signer // derives passwords of desktops

	mu      sync.Mutex
	running int
	idle    map[string][]*Machine // by queue
	warming map[string]int        // machines of a queue that become idle
	// warmAgain is when an idle machine of a queue can be created again after a failure.
	warmAgain map[string]time.Time
	outages   map[string]outage // by place
	followed  map[string]bool   // machines on places that this process runs
	changed   chan struct{}     // a machine has ended
	jobs      sync.WaitGroup

	draining chan struct{} // closed when no more jobs are taken
	finished chan struct{} // closed when the last machine has ended
}

// New returns a Service.
func New(p Parts) *Service {
	if p.Endpoint == "" {
		p.Endpoint = p.Public.To("v3")
	}
	return &Service{
		Parts: p, host: p.Images.Host(), desktops: p.Key.Signer("desktops of machines"),
		idle: map[string][]*Machine{}, warming: map[string]int{}, warmAgain: map[string]time.Time{},
		outages: map[string]outage{}, followed: map[string]bool{},
		changed: make(chan struct{}, 1), draining: make(chan struct{}), finished: make(chan struct{}),
	}
}

// Drain lets no more jobs start, and waits until those of the local provider have ended or ctx ends. Machines on places
// do not need this process.
func (s *Service) Drain(ctx context.Context) {
	close(s.draining)
	if s.Max <= 0 || len(s.Places) > 0 {
		return
	}
	select {
	case <-s.finished:
	case <-ctx.Done():
	}
}

func (s *Service) isDraining() bool { return core.IsClosed(s.draining) }

// Run runs machines until ctx ends. Then it kills those on this server, and leaves those on places to the next process.
func (s *Service) Run(ctx context.Context) error {
	if s.Max <= 0 {
		return nil
	}
	if err := s.removeLeft(ctx); err != nil {
		s.Log.Error("remove machines of the previous process failed", "error", err)
	}
	go s.renew(ctx)
	for ctx.Err() == nil && !s.isDraining() {
		queues, err := s.scan(ctx)
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("scan hosted queues failed", "error", err)
		}
		s.await(ctx, queues)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	s.removeIdle(last)
	s.jobs.Wait()
	close(s.finished)
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
	case <-s.draining:
	case <-ctx.Done():
	}
}

// scan starts machines for the jobs of all hosted queues, as many as the limit allows, and fills the warm pools.
func (s *Service) scan(ctx context.Context) (queues []clusters.HostedQueue, err error) {
	err = s.DB.Read(ctx, func(q *db.Q) (err error) {
		queues, err = clusters.HostedQueues(q, s.platforms()...)
		return err
	})
	if err == nil {
		err = s.adopt(ctx)
	}
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

// platforms returns the platforms of queues that this provider runs.
func (s *Service) platforms() (list []clusters.Platform) {
	if len(s.Places) == 0 {
		return []clusters.Platform{clusters.Linux}
	}
	for _, p := range s.Places {
		if !slices.Contains(list, p.Platform) {
			list = append(list, p.Platform)
		}
	}
	return list
}

// start reserves a job of a queue and runs a machine for it. It reports false if there is no job or no capacity.
func (s *Service) start(ctx context.Context, queue clusters.HostedQueue) (bool, error) {
	m, taken := s.take(queue)
	if !taken {
		return false, nil
	}
	now, before := s.Clock(), m.State
	err := s.DB.Write(ctx, func(q *db.Q) (err error) {
		m.JobID, m.State = "", before
		if len(s.Places) > 0 {
			if m.Place, err = s.choosePlace(q, queue.Shape.Platform); err != nil || m.Place == "" {
				return err
			}
		}
		m.JobID, err = dispatch.ReserveNext(q, queue.ID, m.ID, now.Add(tokenLife))
		if err != nil || m.JobID == "" {
			return err
		}
		m.State = Running
		return save(q, s.host, m, now)
	})
	if err != nil || m.JobID == "" {
		m.State = before
		s.giveBack(queue, m)
		return false, err
	}
	s.mu.Lock()
	s.followed[m.ID] = true
	s.mu.Unlock()
	s.jobs.Go(func() {
		defer s.release(m)
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
	if s.running >= s.Max || s.isDraining() {
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
func (s *Service) release(m *Machine) {
	s.mu.Lock()
	s.running--
	delete(s.followed, m.ID)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Background registers the tasks of machines.
func (s *Service) Background(r *tasks.Runner) { r.Sweep("machines-lost", lease, s.removeLost) }
