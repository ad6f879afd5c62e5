package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/shell"
	"stackyard/internal/clients/sleep"
)

// A worker is one agent as the server sees it.
type worker struct {
	o       Options
	number  int
	drain   context.Context // done when the agent must not start further jobs
	log     *slog.Logger
	api     *api.Client // uses the agent token, then the token of the session
	session api.Session

	commands shell.Executor // nil: commands run here
}

func newWorker(o Options, number int, drain context.Context, commands shell.Executor) *worker {
	return &worker{o: o, commands: commands, number: number, drain: drain, log: o.Log, api: api.New(o.Endpoint, o.Token, o.Version)}
}

// run registers, runs jobs, and disconnects.
func (w *worker) run(ctx context.Context) error {
	if err := w.register(ctx); err != nil {
		return w.unlessDraining(err)
	}
	defer w.disconnect(ctx)
	if err := w.connect(ctx); err != nil {
		return w.unlessDraining(err)
	}

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go w.beat(ctx, end)
	var err error
	if w.o.AcquireJob != "" {
		err = w.acquire(ctx)
	} else {
		err = w.takeJobs(ctx)
	}
	if lost, ok := errors.AsType[*lostSession](context.Cause(ctx)); ok {
		return lost
	}
	return err
}

// unlessDraining returns nil if the agent is draining, and err otherwise.
func (w *worker) unlessDraining(err error) error {
	if w.drain.Err() != nil {
		return nil
	}
	return err
}

// untilDrained returns a context that also ends when the agent drains.
func (w *worker) untilDrained(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	forget := context.AfterFunc(w.drain, cancel)
	return ctx, func() {
		forget()
		cancel()
	}
}

func (w *worker) register(ctx context.Context) error {
	hostname, _ := os.Hostname()
	registration := api.Registration{
		Name:       w.o.workerName(w.number),
		Hostname:   hostname,
		OS:         operatingSystem(),
		Arch:       runtime.GOARCH,
		Version:    w.o.Version,
		Tags:       w.o.tags(),
		Features:   []string{},
		Priority:   w.o.Priority,
		PID:        os.Getpid(),
		ScriptEval: true,
		SingleJob:  w.o.AcquireJob != "",
	}
	if registration.SingleJob {
		registration.Features = append(registration.Features, "acquire-job")
	}
	ctx, cancel := w.untilDrained(ctx)
	defer cancel()
	session, err := w.api.Register(ctx, registration)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	w.session = session
	w.api = w.api.As(session.AccessToken)
	w.log = w.log.With("agent", session.Name)
	return nil
}

func (w *worker) connect(ctx context.Context) error {
	ctx, cancel := w.untilDrained(ctx)
	defer cancel()
	if err := w.api.Connect(ctx); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	w.log.Info("connected", "id", w.session.ID)
	return nil
}

// operatingSystem returns the name of the operating system.
func operatingSystem() string {
	about, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOOS
	}
	for line := range strings.Lines(string(about)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return runtime.GOOS
}

// A lostSession means that the server no longer knows the session.
type lostSession struct{ err error }

func (e *lostSession) Error() string { return "the server has ended the session: " + e.err.Error() }
func (e *lostSession) Unwrap() error { return e.err }

// beat sends heartbeats. It calls end if the server has ended the session.
func (w *worker) beat(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(seconds(w.session.HeartbeatInterval, 30))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := w.api.Heartbeat(ctx, time.Now())
		switch {
		case err == nil, ctx.Err() != nil:
		case api.Refused(err):
			end(&lostSession{err})
			return
		default:
			w.log.Warn("heartbeat failed", "error", err)
		}
	}
}

// seconds returns a duration of sent seconds, or of usual seconds if sent is not positive.
func seconds(sent, usual int) time.Duration {
	if sent < 1 {
		sent = usual
	}
	return time.Duration(sent) * time.Second
}

// disconnect disconnects from the server, even if ctx is done.
func (w *worker) disconnect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := w.api.Disconnect(ctx); err != nil {
		w.log.Warn("disconnect failed", "error", err)
		return
	}
	w.log.Info("disconnected")
}

// takeJobs follows the server's orders until it orders to disconnect, or the agent drains or is idle for too
// long.
func (w *worker) takeJobs(ctx context.Context) error {
	orders := newOrders(w.api, w.session, w.log)
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	go orders.stream(streaming)

	idleSince := time.Now()
	for {
		order, err := w.nextOrder(ctx, orders, idleSince)
		switch {
		case errors.Is(err, errDone):
			return nil
		case err != nil:
			return err
		}
		if order.Message != "" {
			w.log.Info("server message", "message", order.Message)
		}
		switch {
		case order.Action == api.Disconnect:
			return nil
		case order.Action == api.Pause:
			idleSince = time.Time{} // a paused agent is not idle
		case order.JobID != "":
			if !w.takeJob(ctx, order.JobID) {
				continue
			}
			if w.o.DisconnectAfterJob {
				return nil
			}
			orders.done(order.JobID)
			idleSince = time.Now()
		case idleSince.IsZero():
			idleSince = time.Now()
		}
	}
}

// errDone means that the agent waits for no more orders.
var errDone = errors.New("the agent takes no more orders")

// nextOrder waits for an order. It returns errDone if the agent drains or was idle for too long. A zero idleSince
// means that the agent is not idle.
func (w *worker) nextOrder(ctx context.Context, orders *orders, idleSince time.Time) (api.Order, error) {
	waiting, cancel := w.untilDrained(ctx)
	defer cancel()
	if idle := w.o.DisconnectAfterIdle; idle > 0 && !idleSince.IsZero() {
		var forget context.CancelFunc
		waiting, forget = context.WithDeadline(waiting, idleSince.Add(idle))
		defer forget()
	}
	if waiting.Err() != nil {
		return api.Order{}, errDone
	}
	order, err := orders.next(waiting)
	if waiting.Err() != nil && order.JobID == "" {
		return api.Order{}, errDone
	}
	return order, err
}

// takeJob accepts and runs an offered job. It reports whether the server let it.
func (w *worker) takeJob(ctx context.Context, id string) bool {
	spec, err := w.api.Accept(ctx, id)
	if err != nil {
		w.log.Warn("accept job failed", "job", id, "error", err)
		return false
	}
	w.runJob(ctx, spec)
	return true
}

// acquire runs AcquireJob.
func (w *worker) acquire(ctx context.Context) error {
	patient, cancel := w.untilDrained(ctx)
	spec, err := w.api.Acquire(patient, w.o.AcquireJob)
	cancel()
	switch {
	case api.StatusOf(err) == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %w", ErrAcquisitionRefused, err)
	case err != nil:
		// Only the server knows whether another agent may try. The job shows that it did not run.
		w.log.Error("acquire job failed", "job", w.o.AcquireJob, "error", err)
	default:
		w.runJob(ctx, spec)
	}
	return w.waitWhilePaused(ctx)
}

// waitWhilePaused waits as long as the server pauses the agent, so that a person can inspect what the job left
// behind.
func (w *worker) waitWhilePaused(ctx context.Context) error {
	ctx, cancel := w.untilDrained(ctx)
	defer cancel()
	for paused := true; paused && ctx.Err() == nil; {
		order, err := w.api.Ping(ctx)
		if api.Refused(err) {
			return fmt.Errorf("ping: %w", err)
		}
		paused = order.Action == api.Pause
		if paused {
			w.log.Info("paused", "message", order.Message)
			sleep.For(ctx, seconds(w.session.PingInterval, 5))
		}
	}
	return nil
}
