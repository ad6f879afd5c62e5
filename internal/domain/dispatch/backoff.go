package dispatch

import (
	"math/rand/v2"
	"time"
)

// minPause and maxPause bound the time between two scans when the database fails, or when other replicas take
// the jobs first.
const minPause, maxPause = 10 * time.Millisecond, 5 * time.Second

// backoff is the current delay and when it ends. It uses the machine's clock.
type backoff struct {
	length time.Duration
	until  time.Time
}

func (t *backoff) increase() {
	t.length = min(max(2*t.length, minPause), maxPause)
	t.until = time.Now().Add(t.length/2 + rand.N(t.length/2))
}

func (t *backoff) reset() { *t = backoff{} }

// scanFailed increases the backoff after a failed scan.
func (q *queue) scanFailed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stale = true
	q.backoff.increase()
}

// backoffDelay returns how long to wait before the next scan.
func (q *queue) backoffDelay() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Until(q.backoff.until)
}
