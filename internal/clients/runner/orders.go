package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/sleep"
)

// orders receives a worker's orders: the server pushes them over a stream, and without a stream the worker
// polls.
type orders struct {
	api      *api.Client
	agentID  string
	interval time.Duration // between two pings
	log      *slog.Logger

	mu      sync.Mutex
	pushed  *api.Order // the newest order, until it is taken
	lastJob string     // the last job that ran
	mode    mode
	changed chan struct{} // signals a change of pushed or mode

	failures int       // consecutive failed pings
	lastPing time.Time // time of the last ping
}

// A mode is how orders arrive.
type mode int

const (
	opening mode = iota // unknown yet whether there is a stream
	streaming
	polling
)

func newOrders(client *api.Client, s api.Session, log *slog.Logger) *orders {
	return &orders{api: client, agentID: s.ID, interval: seconds(s.PingInterval, 5), log: log, changed: make(chan struct{}, 1)}
}

// next waits for the next order, which may be to continue waiting.
func (o *orders) next(ctx context.Context) (api.Order, error) {
	for {
		order, mode := o.take()
		if order != nil {
			return *order, nil
		}
		if mode == polling {
			if order, err := o.poll(ctx); order != nil || err != nil {
				return *order, err
			}
			continue
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			return api.Order{}, ctx.Err()
		}
	}
}

func (o *orders) take() (*api.Order, mode) {
	o.mu.Lock()
	defer o.mu.Unlock()
	order := o.pushed
	o.pushed = nil
	return order, o.mode
}

// poll pings the server when the next ping is due. It returns nil if a stream has opened meanwhile.
func (o *orders) poll(ctx context.Context) (*api.Order, error) {
	due := time.NewTimer(time.Until(o.lastPing.Add(o.pollDelay())))
	defer due.Stop()
	select {
	case <-due.C:
	case <-o.changed:
		return nil, nil
	case <-ctx.Done():
		return &api.Order{}, ctx.Err()
	}
	o.lastPing = time.Now()
	order, err := o.api.Ping(ctx)
	switch {
	case err == nil, ctx.Err() != nil:
		o.failures = 0
		return &order, err
	case api.Refused(err):
		return &order, fmt.Errorf("ping: %w", err)
	}
	o.failures++
	o.log.Warn("ping failed", "error", err)
	return nil, nil
}

// maxPollDelay limits the delay between pings after failures.
const maxPollDelay = 10 * time.Second

// pollDelay returns the delay between the last ping and the next one: random within an interval, so that the
// pings of many agents spread out, and longer after failures.
func (o *orders) pollDelay() time.Duration {
	if o.lastPing.IsZero() {
		return 0
	}
	if o.failures == 0 {
		return rand.N(o.interval) + 1
	}
	most := min(time.Second<<min(o.failures, 10), max(o.interval, maxPollDelay))
	return most/2 + rand.N(most/2)
}

// done records that a job was run. A repeated offer of this job is ignored, and the next ping is due at once.
func (o *orders) done(jobID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastJob = jobID
	if o.pushed != nil && o.pushed.JobID == jobID {
		o.pushed = nil
	}
	o.lastPing = time.Time{}
}

// Times of the stream.
const (
	// streamAge is how long a stream is kept open: proxies drop idle connections.
	streamAge = time.Minute
	// firstMessageTimeout is how long to wait for the first message, which a server sends at once.
	firstMessageTimeout = 10 * time.Second
	// maxStreamDelay limits the delay before a broken stream is reopened.
	maxStreamDelay = 64 * time.Second
)

// stream keeps a stream open until ctx is done or the server reports that it has none.
func (o *orders) stream(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		received, err := o.listen(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, api.ErrNoStream):
			o.setMode(polling)
			return
		case err == nil && received:
			failures = 0
			sleep.For(ctx, rand.N(time.Second))
		default:
			o.log.Debug("stream interrupted", "error", err)
			o.setMode(polling)
			if received {
				failures = 0
			}
			failures++
			most := min(time.Second<<min(failures, 10), maxStreamDelay)
			sleep.For(ctx, most/2+rand.N(most/2))
		}
	}
}

// listen opens a stream and receives orders until it ends. It reports whether it received any. err is nil if
// the stream ended normally.
func (o *orders) listen(ctx context.Context) (received bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, streamAge)
	defer cancel()
	silence := time.AfterFunc(firstMessageTimeout, func() { o.setMode(polling) })
	defer silence.Stop()
	err = o.api.Stream(ctx, o.agentID, func(order api.Order) {
		silence.Stop()
		received = true
		o.push(order)
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = nil // the stream reached its age
	}
	return received, err
}

// push stores an order for the worker. A new order replaces the last one, but an idle order does not replace a
// job.
func (o *orders) push(order api.Order) {
	o.mu.Lock()
	repeatsLastJob := order.JobID != "" && order.JobID == o.lastJob
	isIdle := order.Action != api.Pause && order.Action != api.Disconnect && order.JobID == ""
	dropsJob := isIdle && o.pushed != nil && o.pushed.JobID != ""
	if !repeatsLastJob && !dropsJob {
		o.pushed = &order
	}
	o.mu.Unlock()
	o.setMode(streaming)
}

func (o *orders) setMode(m mode) {
	o.mu.Lock()
	o.mode = m
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
}
