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
)

// orders is where a worker's orders come from: the server pushes them over a stream, and while there is
// no stream they are asked for.
type orders struct {
	api      *api.Client
	agentID  string
	interval time.Duration // between two pings
	log      *slog.Logger

	mu       sync.Mutex
	pushed   *api.Order // the last, if it was not taken yet
	finished string     // the last job that was run
	mode     mode
	news     chan struct{} // tells that something above has changed

	failures int       // of pings in a row
	asked    time.Time // when the last ping was sent
}

// A mode is how orders come.
type mode int

const (
	opening mode = iota // it is not known yet whether there is a stream
	streaming
	polling
)

func newOrders(client *api.Client, s api.Session, log *slog.Logger) *orders {
	return &orders{api: client, agentID: s.ID, interval: seconds(s.PingInterval, 5), log: log, news: make(chan struct{}, 1)}
}

// next waits for the next order, which may be to do nothing.
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
		case <-o.news:
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

// poll asks for an order once it is time to. It returns none when there is a stream again.
func (o *orders) poll(ctx context.Context) (*api.Order, error) {
	due := time.NewTimer(time.Until(o.asked.Add(o.pause())))
	defer due.Stop()
	select {
	case <-due.C:
	case <-o.news:
		return nil, nil
	case <-ctx.Done():
		return &api.Order{}, ctx.Err()
	}
	o.asked = time.Now()
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

// mostPause bounds how long a server that does not answer is left alone.
const mostPause = 10 * time.Second

// pause returns how long after a ping the next is due: within an interval, so that the pings of many
// agents spread out, and later after failures.
func (o *orders) pause() time.Duration {
	if o.asked.IsZero() {
		return 0
	}
	if o.failures == 0 {
		return rand.N(o.interval) + 1
	}
	most := min(time.Second<<min(o.failures, 10), max(o.interval, mostPause))
	return most/2 + rand.N(most/2)
}

// done says that a job was run: the offer of it, should it be repeated, is not taken for another, and it is
// time to ask for the next.
func (o *orders) done(jobID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = jobID
	if o.pushed != nil && o.pushed.JobID == jobID {
		o.pushed = nil
	}
	o.asked = time.Time{}
}

// Times of the stream.
const (
	// streamAge is how long a stream is kept: proxies forget connections that are quiet for long.
	streamAge = time.Minute
	// firstWord is how long to wait for the message that a server sends at once.
	firstWord = 10 * time.Second
	// mostStreamPause bounds the time until a broken stream is opened again.
	mostStreamPause = 64 * time.Second
)

// stream keeps a stream open until ctx is done, or the server says that it has none.
func (o *orders) stream(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		heard, err := o.listen(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, api.ErrNoStream):
			o.setMode(polling)
			return
		case err == nil && heard:
			failures = 0
			wait(ctx, rand.N(time.Second))
		default:
			o.log.Debug("stream interrupted", "error", err)
			o.setMode(polling)
			if heard {
				failures = 0
			}
			failures++
			most := min(time.Second<<min(failures, 10), mostStreamPause)
			wait(ctx, most/2+rand.N(most/2))
		}
	}
}

// listen opens a stream and receives orders until it ends. It reports whether any were heard; err is nil
// when the end is in good order.
func (o *orders) listen(ctx context.Context) (heard bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, streamAge)
	defer cancel()
	silence := time.AfterFunc(firstWord, func() { o.setMode(polling) })
	defer silence.Stop()
	err = o.api.Stream(ctx, o.agentID, func(order api.Order) {
		silence.Stop()
		heard = true
		o.push(order)
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = nil // it has had its time
	}
	return heard, err
}

// push keeps an order for the worker. Only the last counts, except that "go on" does not take back a job.
func (o *orders) push(order api.Order) {
	o.mu.Lock()
	idle := order.Action != api.Pause && order.Action != api.Disconnect && order.JobID == ""
	repeated := order.JobID != "" && order.JobID == o.finished
	if waiting := o.pushed != nil && o.pushed.JobID != ""; !repeated && !(idle && waiting) {
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
	case o.news <- struct{}{}:
	default:
	}
}
