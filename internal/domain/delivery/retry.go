package delivery

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// firstDelay is the time before the second attempt. It doubles with each attempt, up to maxDelay for one delivery
	// and to maxRest for a whole receiver.
	firstDelay = 5 * time.Second
	maxDelay   = time.Hour
	maxRest    = 15 * time.Minute
	// giveUpAfter is how long a delivery is tried, and how long a receiver may fail before it is broken.
	giveUpAfter = 24 * time.Hour
	// restAfter is how many attempts in a row fail with responses before the whole receiver gets a rest. One that does
	// not respond at all gets it at once.
	restAfter = 8
	// brokenAfter is the least number of attempts that fail in a row before a receiver is broken.
	brokenAfter = 5
)

func (a Answer) delivered() bool { return a.Status >= 200 && a.Status < 300 && !a.Permanent }

// retries reports whether another attempt may end better.
func (a Answer) retries() bool {
	switch {
	case a.Permanent || a.delivered():
		return false
	case a.Status == 0:
		return true
	}
	return a.Status == http.StatusRequestTimeout || a.Status == http.StatusTooManyRequests || a.Status >= 500
}

// explain says what went wrong; "" if nothing did.
func (a Answer) explain() string {
	switch {
	case a.delivered():
		return ""
	case a.Err != nil:
		return errorText(a.Err)
	case a.Status >= 300 && a.Status < 400:
		return fmt.Sprintf("the receiver answered with status %d; redirects are not followed", a.Status)
	}
	return fmt.Sprintf("the receiver answered with status %d", a.Status)
}

// backoff returns how long to wait after a number of attempts: twice as long each time, and between half and all of it
// by chance, so that what failed together is not tried together.
func backoff(attempts int, most time.Duration) time.Duration {
	d := most
	if doublings := attempts - 1; doublings < 20 {
		d = min(firstDelay<<doublings, most)
	}
	return d/2 + rand.N(d/2)
}

// settle notes the answer to an attempt to send a delivery.
func (d *Delivery) settle(a Answer, took time.Duration, now time.Time) {
	d.Attempts++
	d.Status, d.Error, d.Duration, d.Request, d.Response = a.Status, a.explain(), took, a.Request, a.Response
	d.NextAttemptAt = time.Time{}
	switch deadline := d.CreatedAt.Add(giveUpAfter); {
	case a.delivered():
		d.State, d.FinishedAt = Delivered, now
	case !a.retries() || !now.Before(deadline):
		d.State, d.FinishedAt = Failed, now
	default:
		d.NextAttemptAt = now.Add(max(backoff(d.Attempts, maxDelay), a.RetryAfter))
		if d.NextAttemptAt.After(deadline) {
			d.NextAttemptAt = deadline
		}
	}
}

// fail ends a delivery without an attempt.
func (d *Delivery) fail(reason string, now time.Time) {
	d.State, d.Error, d.FinishedAt, d.NextAttemptAt = Failed, reason, now, time.Time{}
}

// note counts the answer to an attempt to send something to the receiver. Answers to attempts that were made at the
// same time lengthen a rest only once.
func (f *failures) note(a Answer, now time.Time) {
	if a.delivered() {
		*f = failures{}
		return
	}
	if f.since.IsZero() {
		f.since = now
	}
	f.count++
	rests := a.Status == 0 && !a.Permanent || a.Status == http.StatusTooManyRequests || a.retries() && f.count >= restAfter
	if !rests || f.resting(now) {
		return
	}
	f.backoffs++
	f.nextAttemptAt = now.Add(max(backoff(f.backoffs, maxRest), a.RetryAfter))
}

// resting reports whether nothing is sent to the receiver for now.
func (f failures) resting(now time.Time) bool { return now.Before(f.nextAttemptAt) }

// atOnce returns how many deliveries may be on their way to the receiver at the same time. After a rest one has to
// arrive before more are sent.
func (f failures) atOnce(now time.Time) int {
	switch {
	case f.resting(now):
		return 0
	case !f.nextAttemptAt.IsZero():
		return 1
	}
	return maxInFlight
}

// broken reports whether the receiver has failed for so long that it gets nothing more.
func (f failures) broken(now time.Time) bool {
	return f.count >= brokenAfter && !now.Before(f.since.Add(giveUpAfter))
}
