package identity

import (
	"context"
	"time"

	"stackyard/internal/platform/bus"
)

// defaultCheckEvery is how often Changes looks at the epoch.
const defaultCheckEvery = 2 * time.Second

// Changes returns a channel that holds a token when what callers may do may have changed since the last token was taken.
// Answers that take long check then whether their callers may still have them. It ends with ctx.
//
// Changes of this process and of other replicas wake it through the bus. For those that it does not hear of, such as
// by another program, it looks at the epoch every two seconds, which costs one small read for all answers together.
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
				d.markStale() // the change may be newer than what is remembered
			case <-tick.C:
				epoch, err := d.Epoch(ctx)
				if err == nil && epoch == seen {
					continue
				}
				seen = epoch // after an error the check decides
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

// Epoch returns how often what directories remember has been changed, as of half a second ago or later.
func (d *Directory) Epoch(ctx context.Context) (int64, error) {
	if err := d.look(ctx); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.epoch, nil
}

// markStale has the directory look at the epoch before it answers the next time.
func (d *Directory) markStale() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looked = time.Time{}
}
