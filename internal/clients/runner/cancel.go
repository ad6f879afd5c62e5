package runner

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/process"
)

// A cancellation is a job's end before its time: its processes are asked to stop, and killed when they have
// not done so after a while. What follows the command has to fit into the same time.
type cancellation struct {
	grace time.Duration
	once  sync.Once
	ask   chan struct{} // closed when the job has to stop
	kill  chan struct{} // closed when the time is over

	// Set before ask is closed.
	reason   string
	timedOut bool
}

func newCancellation(grace time.Duration) *cancellation {
	return &cancellation{grace: grace, ask: make(chan struct{}), kill: make(chan struct{})}
}

// request makes the job end. Only the first request counts.
func (c *cancellation) request(reason string, timedOut bool) {
	c.once.Do(func() {
		c.reason, c.timedOut = reason, timedOut
		close(c.ask)
		time.AfterFunc(c.grace, func() { close(c.kill) })
	})
}

// requested reports whether the job has to end.
func (c *cancellation) requested() bool {
	select {
	case <-c.ask:
		return true
	default:
		return false
	}
}

// stop is for processes that are to end with the job.
func (c *cancellation) stop() process.Stop { return process.Stop{Ask: c.ask, Kill: c.kill} }

// lastStop is for processes that clean up after the job: they are not asked, only killed in the end.
func (c *cancellation) lastStop() process.Stop { return process.Stop{Kill: c.kill} }

// outcome is that of a job that was cancelled, and of which something may have had to be killed.
func (c *cancellation) outcome(killed bool) outcome {
	signal := "SIGTERM"
	if killed {
		signal = "SIGKILL"
	}
	return outcome{status: -1, signal: signal, reason: c.reason}
}

// poll asks again and again whether the server still wants the job to run.
func (j *job) poll(ctx context.Context) {
	interval := seconds(j.w.session.JobStatusInterval, 3)
	for pause := rand.N(interval); ; pause = interval*3/4 + rand.N(interval/2) {
		wait(ctx, pause)
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
