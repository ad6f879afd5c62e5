package server

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/bus"
	"stackyard/internal/platform/tasks"
)

// background is the work without a request: durable tasks, notifications of other replicas, and recording the
// use of access tokens.
type background struct {
	bus   *bus.Bus
	tasks *tasks.Runner
	uses  *account.Uses

	loops   []func(context.Context) error // of capabilities
	polls   []func(context.Context) error // the polls of those loops, which may make tasks due
	flushes []func(context.Context) error // write what capabilities collect in memory

	stopTasks, stopLoops, stopBus func()
}

func newBackground(p Parts, metrics prometheus.Registerer) *background {
	b := bus.New(p.DB, p.Log)
	return &background{
		bus:       b,
		tasks:     tasks.New(p.DB, b, p.Clock, p.Log, metrics),
		uses:      account.NewUses(p.DB, p.Clock, p.Log),
		stopTasks: func() {},
		stopLoops: func() {},
		stopBus:   func() {},
	}
}

// Start begins background work. Without it, only RunDue does such work.
func (s *Server) Start() {
	s.background.stopBus = start(s.background.bus.Run)
	s.background.stopTasks = start(s.background.tasks.Run)
	s.background.stopLoops = start(s.background.runLoops)
}

// Stop ends background work and waits for it. Call it when no more requests are served, so that the bus, which
// ends last, notifies other replicas of every change.
func (s *Server) Stop() {
	s.background.stopTasks()
	s.background.stopLoops()
	s.background.stopBus()
}

// RunDue polls the bus, runs tasks that are due at the time of the server's clock, flushes what is collected in
// memory, and returns errors. It is for tests, which control the time and do not call Start.
func (s *Server) RunDue(ctx context.Context) error {
	err := s.background.bus.Poll(ctx)
	for _, poll := range s.background.polls {
		err = errors.Join(err, poll(ctx))
	}
	err = errors.Join(err, s.background.tasks.RunDue(ctx))
	for _, flush := range s.background.flushes {
		err = errors.Join(err, flush(ctx))
	}
	return err
}

// runLoops runs the loops of capabilities until ctx is done.
func (b *background) runLoops(ctx context.Context) error {
	var running sync.WaitGroup
	for _, loop := range b.loops {
		running.Go(func() { loop(ctx) })
	}
	running.Wait()
	return nil
}

// start runs a loop in the background. stop ends it and waits for it.
func start(loop func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { loop(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
