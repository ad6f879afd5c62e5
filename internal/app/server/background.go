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

// background is what goes on without a request: durable tasks, telling other replicas of changes, and
// writing down when access tokens are used.
type background struct {
	bus   *bus.Bus
	tasks *tasks.Runner
	uses  *account.Uses

	loops   []func(context.Context) error // of rooms
	looks   []func(context.Context) error // of those loops: for what may make tasks due
	flushes []func(context.Context) error // what rooms gather in memory

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

// Start begins background work. Without it nothing is done that no request asks for, except by
// RunDue.
func (s *Server) Start() {
	s.background.stopBus = start(s.background.bus.Run)
	s.background.stopTasks = start(s.background.tasks.Run)
	s.background.stopLoops = start(s.background.runLoops)
}

// Stop ends background work and waits for it. It is called when no more requests are answered, so that
// the bus, which ends last, tells other replicas of every change.
func (s *Server) Stop() {
	s.background.stopTasks()
	s.background.stopLoops()
	s.background.stopBus()
}

// RunDue polls the bus, does what is due at the time of the server's clock and writes down what is gathered in memory,
// and returns what failed. It is for tests, which own the time and do not call Start.
func (s *Server) RunDue(ctx context.Context) error {
	err := s.background.bus.Poll(ctx)
	for _, look := range s.background.looks {
		err = errors.Join(err, look(ctx))
	}
	err = errors.Join(err, s.background.tasks.RunDue(ctx))
	for _, flush := range s.background.flushes {
		err = errors.Join(err, flush(ctx))
	}
	return err
}

// runLoops runs the loops of rooms until ctx is done.
func (b *background) runLoops(ctx context.Context) error {
	var running sync.WaitGroup
	for _, loop := range b.loops {
		running.Go(func() { loop(ctx) })
	}
	running.Wait()
	return nil
}

// start runs a loop until stop is called, which returns when the loop has ended.
func start(loop func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { loop(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
