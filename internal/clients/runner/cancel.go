package runner

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/process"
	"stackyard/internal/clients/sleep"
)

// A cancellation stops a job: its processes get SIGTERM, and SIGKILL after a grace period. Cleanup after the
// command must fit into the same period.
type cancellation struct {
	grace time.Duration
	once  sync.Once
	term  chan struct{} // closed when the job must stop
	kill  chan struct{} // closed after the grace period

	// Set before term is closed.
	reason   string
	timedOut bool
}

func newCancellation(grace time.Duration) *cancellation {
	return &cancellation{grace: grace, term: make(chan struct{}), kill: make(chan struct{})}
}

// request stops the job. Only the first request counts.
func (c *cancellation) request(reason string, timedOut bool) {
	c.once.Do(func() {
		c.reason, c.timedOut = reason, timedOut
		close(c.term)
		time.AfterFunc(c.grace, func() { close(c.kill) })
	})
}

// requested reports whether the job must stop.
func (c *cancellation) requested() bool {
	select {
	case <-c.term:
		return true
	default:
		return false
	}
}

// stop is for processes that end with the job.
func (c *cancellation) stop() process.Stop { return process.Stop{Term: c.term, Kill: c.kill} }

// cleanupStop is for cleanup processes: they get no SIGTERM, only SIGKILL.
func (c *cancellation) cleanupStop() process.Stop { return process.Stop{Kill: c.kill} }

// outcome returns the outcome of a canceled job. killed reports whether a process had to be killed.
func (c *cancellation) outcome(killed bool) outcome {
	signal := "SIGTERM"
	if killed {
		signal = "SIGKILL"
	}
	return outcome{status: -1, signal: signal, reason: c.reason}
}

// poll polls the job's state and cancels the job when the server wants it to stop.
func (j *job) poll(ctx context.Context) {
	interval := seconds(j.w.session.JobStatusInterval, 3)
	for pause := rand.N(interval); ; pause = interval*3/4 + rand.N(interval/2) {
		sleep.For(ctx, pause)
		state, err := j.api.State(ctx, j.spec.ID)
		switch {
		case ctx.Err() != nil:
			return
		case api.StatusOf(err) == http.StatusUnauthorized:
			j.log.Warn("job no longer held by this agent", "error", err)
			j.cancel.request(canceled, false)
			return
		case err != nil:
			j.log.Warn("get job state failed", "error", err)
		case state == "canceling" || state == "canceled":
			j.cancel.request(canceled, false)
			return
		case state == "timing_out" || state == "timed_out":
			j.cancel.request(canceled, true)
			return
		}
	}
}
