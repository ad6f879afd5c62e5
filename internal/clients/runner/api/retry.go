package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// A retry says how often a call is tried, which failures are worth another try, and how long to wait
// before it. The zero value tries once.
type retry struct {
	tries  int
	wait   func(failures int) time.Duration // before the next try
	again  func(*Error) bool                // nil: what is temporary
	listen bool                             // wait as long as the server's Retry-After says
}

// run tries until a try succeeds, or there is no point in another.
func (r retry) run(ctx context.Context, try func(n int) error) error {
	for n := 0; ; n++ {
		err := try(n)
		if err == nil {
			return nil
		}
		failure, ok := errors.AsType[*Error](err)
		if !ok || ctx.Err() != nil || n+1 >= r.tries || !r.worth(failure) {
			return err
		}
		wait := r.wait(n + 1)
		if r.listen && failure.RetryAfter > 0 {
			wait = min(failure.RetryAfter, longestRetryAfter)
		}
		if !sleep(ctx, wait) {
			return err
		}
	}
}

func (r retry) worth(failure *Error) bool {
	if r.again != nil {
		return r.again(failure)
	}
	return failure.Temporary()
}

// longestRetryAfter bounds how long a server can make a client wait.
const longestRetryAfter = 2 * time.Minute

// growing waits twice as long after each failure, from first to most, give or take a quarter, so that
// the agents that a restarting server has lost do not all come back in the same moment.
func growing(first, most time.Duration) func(int) time.Duration {
	return func(failures int) time.Duration {
		wait := most
		if doublings := failures - 1; doublings < 30 {
			wait = min(first<<doublings, most)
		}
		return jittered(wait)
	}
}

func jittered(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}

// sleep waits, and reports whether the context let it.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func always(*Error) bool { return true }

// The rules that several calls share.
var (
	// insideJob is for what commands in jobs ask for.
	insideJob = retry{tries: 10, wait: growing(time.Second, 5*time.Second)}
	// tenMinutes is for what must not be lost: the log and the result of a job.
	tenMinutes = retry{tries: 12, wait: growing(time.Second, 90*time.Second)}
)
