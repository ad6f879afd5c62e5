package api

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"stackyard/internal/clients/sleep"
)

// A retry is a policy: how often a call is tried, after which failures, and with which delay. The zero value
// tries once.
type retry struct {
	tries  int
	wait   func(failures int) time.Duration // delay before the next attempt
	again  func(*Error) bool                // nil: temporary failures
	listen bool                             // respect the server's Retry-After
}

// run calls try until it succeeds or the policy stops.
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
		if !sleep.For(ctx, wait) {
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

// longestRetryAfter limits the delay that a server can request.
const longestRetryAfter = 2 * time.Minute

// growing doubles the delay after each failure, from first to most, with a jitter of a quarter, so that agents
// do not all return at the same moment after a server restart.
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

func always(*Error) bool { return true }

// Policies that several calls share.
var (
	// insideJob is for calls of commands in jobs.
	insideJob = retry{tries: 10, wait: growing(time.Second, 5*time.Second)}
	// tenMinutes is for data that must not be lost: the log and the result of a job.
	tenMinutes = retry{tries: 12, wait: growing(time.Second, 90*time.Second)}
)
