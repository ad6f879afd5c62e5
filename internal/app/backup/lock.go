package backup

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"
)

// Locks keep [Repository.Prune] from deleting objects that a backup is about to name. A lock is a lease: its object is
// written again and again while its holder works, and counts for nothing once that has ended, so that a killed process
// delays others for minutes only. Whoever needs a lock writes it before it looks for others, so that of two processes
// that begin together at least one sees the other.

const (
	// leaseTime is how long a lock is valid after it was written. It allows for clocks that differ a little from that of
	// the store.
	leaseTime = 5 * time.Minute
	// renewEvery is how often a lock is written again.
	renewEvery = time.Minute
)

// work is what a lock is for. Locks of backups by older programs have no prefix.
type work string

const (
	backingUp work = ""
	pruning   work = "prune-"
)

// lock announces work until unlock is called. The context that it returns ends when the lock could not be renewed.
func (r *Repository) lock(ctx context.Context, w work, now time.Time) (locked context.Context, unlock func(), err error) {
	key := locksKey + "/" + string(w) + newID(now)
	write := func(ctx context.Context) error { return r.store.Put(ctx, key, strings.NewReader("lock"), -1) }
	if err := write(ctx); err != nil {
		return nil, nil, err
	}
	locked, end := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		ticks := time.NewTicker(r.renewEvery)
		defer ticks.Stop()
		written := time.Now()
		for {
			select {
			case <-ticks.C:
			case <-locked.Done():
				return
			}
			switch err := write(locked); {
			case err == nil:
				written = time.Now()
			case time.Since(written) > leaseTime/2:
				end(fmt.Errorf("renew the lock %s of %s: %w", key, r.store, err))
				return
			}
		}
	})
	return locked, func() {
		end(nil)
		renewing.Wait()
		r.store.Delete(context.WithoutCancel(ctx), key)
	}, nil
}

// checkLocks returns an error if other processes hold locks for some work. It deletes locks that were left behind.
func (r *Repository) checkLocks(ctx context.Context, w work, now time.Time) error {
	for o, err := range r.store.List(ctx, locksKey) {
		if err != nil {
			return err
		}
		if now.Sub(o.Modified) >= leaseTime {
			if err := r.store.Delete(ctx, o.Key); err != nil {
				return err
			}
			continue
		}
		if of := path.Base(o.Key); strings.HasPrefix(of, string(pruning)) != (w == pruning) {
			continue
		}
		until := o.Modified.Add(leaseTime).UTC().Format(time.TimeOnly)
		if w == pruning {
			return fmt.Errorf("backups in %s are being pruned; try again when that has ended, or after %s UTC if it was killed", r.store, until)
		}
		return fmt.Errorf("a backup into %s is running; prune when it has ended, or after %s UTC if it was killed", r.store, until)
	}
	return nil
}

// cause returns why a context that lock returned has ended, if err follows from that.
func cause(locked context.Context, err error) error {
	if err != nil && locked.Err() != nil {
		if why := context.Cause(locked); why != nil {
			return why
		}
	}
	return err
}
