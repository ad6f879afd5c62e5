package route

import (
	"strconv"
	"sync"
	"time"

	"stackyard/internal/core"
)

// window is how far back requests are counted.
const window = time.Second

// Limiter counts requests in a sliding one-second window for each key, exactly, in this process.
type Limiter struct {
	clock core.Clock

	mu      sync.Mutex
	recent  map[string]*ring
	cleaned time.Time
}

// NewLimiter returns a limiter that has counted nothing.
func NewLimiter(clock core.Clock) *Limiter {
	return &Limiter{clock: clock, recent: make(map[string]*ring)}
}

// A Standing is where a caller stands against a limit after one request.
type Standing struct {
	Limit   int
	Current int // requests within the window, this one included unless it was refused
	Reset   int // whole seconds until the window is empty
	Refused bool
}

// Take counts one request of a key. A refused request is not counted.
func (l *Limiter) Take(key string, limit int) Standing {
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clean(now)
	r := l.recent[key]
	if r == nil {
		r = &ring{}
		l.recent[key] = r
	}
	r.dropBefore(now.Add(-window).UnixMicro())
	s := Standing{Limit: limit, Reset: int(window / time.Second)}
	if r.n >= limit {
		s.Refused = true
	} else {
		r.push(now.UnixMicro())
	}
	s.Current = r.n
	return s
}

// clean drops, now and then, the keys that asked nothing within the window.
func (l *Limiter) clean(now time.Time) {
	if now.Sub(l.cleaned) < 10*window {
		return
	}
	l.cleaned = now
	for key, r := range l.recent {
		r.dropBefore(now.Add(-window).UnixMicro())
		if r.n == 0 {
			delete(l.recent, key)
		}
	}
}

// ring holds the times of recent requests, oldest first, and grows to the limit at most.
type ring struct {
	times   []int64
	head, n int
}

func (r *ring) dropBefore(t int64) {
	for r.n > 0 && r.times[r.head] <= t {
		r.head = (r.head + 1) % len(r.times)
		r.n--
	}
}

func (r *ring) push(t int64) {
	if r.n == len(r.times) {
		grown := make([]int64, max(8, 2*len(r.times)))
		for i := range r.n {
			grown[i] = r.times[(r.head+i)%len(r.times)]
		}
		r.times, r.head = grown, 0
	}
	r.times[(r.head+r.n)%len(r.times)] = t
	r.n++
}

// setHeaders tells the caller where it stands.
func (s Standing) setHeaders(r *Request, scope string) {
	r.SetHeader("RateLimit-Scope", scope)
	r.SetHeader("RateLimit-Limit", strconv.Itoa(s.Limit))
	r.SetHeader("RateLimit-Remaining", strconv.Itoa(s.Limit-s.Current))
	r.SetHeader("RateLimit-Reset", strconv.Itoa(s.Reset))
}

// limitView is the body of a 429 answer.
type limitView struct {
	Message string `json:"message"`
	Scope   string `json:"scope"`
	Limit   int    `json:"limit"`
	Current int    `json:"current"`
	Reset   int    `json:"reset" doc:"Seconds until the window resets."`
}
