package identity

import (
	"context"
	"time"

	"stackyard/internal/platform/bus"
)

// defaultCheckEvery is how often Changes checks the epoch.
const defaultCheckEvery = 2 * time.Second

// Changes returns a channel that holds a token when permissions may have changed since the last token was
// taken. Streams then check whether their callers still have access. It ends with ctx.
//
// Changes of this process and of other replicas wake it through the bus. For others, for example by another
// program, it checks the epoch every two seconds, which costs one small read for all streams together.
func (d *Directory) Changes(ctx context.Context, b *bus.Bus) <-chan struct{} {
	changed := make(chan struct{}, 1)
	woken, unsubscribe := b.Subscribe(Topic)
	seen, err := d.Epoch(ctx)
	if err != nil {
		seen = -1
	}
	go func() {
		defer unsubscribe()
		tick := time.NewTicker(d.CheckEvery)
		defer tick.Stop()
		for {
			select {
			case <-woken:
				d.markStale() // the change may be newer than the cache
			case <-tick.C:
				epoch, err := d.Epoch(ctx)
				if err == nil && epoch == seen {
					continue
				}
				seen = epoch // after an error, let the stream check
			case <-ctx.Done():
				return
			}
			select {
			case changed <- struct{}{}:
			default: // the last token has not been taken yet
			}
		}
	}()
	return changed
}

// Epoch returns the number of changes, as of half a second ago or later.
func (d *Directory) Epoch(ctx context.Context) (int64, error) {
	if err := d.checkEpoch(ctx); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.epoch, nil
}

// markStale makes the directory check the epoch before the next answer.
func (d *Directory) markStale() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checkedAt = time.Time{}
}
