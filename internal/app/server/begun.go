package server

import (
	"context"
	"net/http"
	"sync"
)

// begun counts requests that are being answered. The zero value counts none.
type begun struct {
	mu     sync.Mutex
	latest *sync.WaitGroup // those that began since the last wait
}

// count returns a handler that counts the requests it hands on.
func (b *begun) count(h http.Handler) http.Handler {
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

// wait returns when every request that has begun by now is answered, or ctx is done. Those that begin
// meanwhile are not waited for: under steady load there would be no end.
func (b *begun) wait(ctx context.Context) {
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
