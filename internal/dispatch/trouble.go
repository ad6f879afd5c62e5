package dispatch

import (
	"math/rand/v2"
	"time"
)

// minPause and maxPause bound the time between two looks when the database is in trouble, or when others
// are faster to take what is found.
const minPause, maxPause = 10 * time.Millisecond, 5 * time.Second

// trouble is how often in a row something went wrong, and when to try again. It goes by the time of the
// machine: it is about the machine that something is wrong.
type trouble struct {
	length time.Duration
	until  time.Time
}

func (t *trouble) add() {
	t.length = min(max(2*t.length, minPause), maxPause)
	t.until = time.Now().Add(t.length/2 + rand.N(t.length/2))
}

func (t *trouble) end() { *t = trouble{} }

// fail notes that a look went wrong.
func (q *queue) fail() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stale = true
	q.trouble.add()
}

// pause returns how long to wait before the next look.
func (q *queue) pause() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Until(q.trouble.until)
}
