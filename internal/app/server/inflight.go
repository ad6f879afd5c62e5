package server

import (
	"context"
	"net/http"
	"sync"
)

// inFlight counts requests being served. The zero value is ready to use.
type inFlight struct {
	mu     sync.Mutex
	latest *sync.WaitGroup // requests that began since the last wait
}

// count returns a handler that counts the requests to h.
func (b *inFlight) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		if b.latest == nil {
			b.latest = new(sync.WaitGroup)
		}
		mine := b.latest
		mine.Add(1)
		b.mu.Unlock()
		defer mine.Done()
		h.ServeHTTP(w, r)
	})
}

// wait returns when all requests that have inFlight before the call are served, or ctx is done. It does not wait
// for later ones: under steady load it would never end.
func (b *inFlight) wait(ctx context.Context) {
	b.mu.Lock()
	earlier := b.latest
	b.latest = nil
	b.mu.Unlock()
	if earlier == nil {
		return
	}
	answered := make(chan struct{})
	go func() {
		earlier.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
}
