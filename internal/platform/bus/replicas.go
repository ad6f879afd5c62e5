package bus

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// sendGap is the minimum time between two messages to other replicas; topics published meanwhile are sent
	// together. The database orders all notifications under one lock, so they must stay few.
	sendGap = 5 * time.Millisecond
	// flushTimeout bounds the last message of a process that stops.
	flushTimeout = time.Second
	// minPause and maxPause bound the time between two attempts to reach an unavailable database.
	minPause, maxPause = 50 * time.Millisecond, 5 * time.Second
)

// listen wakes the subscribers of topics that other replicas publish. It may miss some while it is not
// connected, so each time it connects it wakes all subscribers.
func (b *Bus) listen(ctx context.Context) {
	var pause pauses
	for ctx.Err() == nil {
		err := b.db.Listen(ctx, func() {
			pause.reset()
			b.wakeAll()
		}, b.receive)
		if ctx.Err() != nil {
			return
		}
		b.log.Warn("listen for replica messages failed, reconnecting", "error", err)
		pause.wait(ctx)
	}
}

// receive handles one message of any replica, this one included.
func (b *Bus) receive(message string) {
	keys, err := decode(message)
	if err != nil {
		b.log.Warn("decode replica message failed", "error", err)
		b.wakeAll()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if keys[0] == b.identity {
		return
	}
	for _, k := range keys[1:] {
		b.wake(k)
	}
}

// send sends the topics published here to other replicas. The first topic after a quiet time is sent at once.
func (b *Bus) send(ctx context.Context) {
	var pause pauses
	for {
		select {
		case <-b.toSend:
		case <-ctx.Done():
			b.flush(ctx)
			return
		}
		if err := b.sendAll(ctx); err != nil && ctx.Err() == nil {
			b.log.Warn("notify replicas failed, will retry", "error", err)
			pause.wait(ctx)
			continue
		}
		pause.reset()
		wait(ctx, sendGap)
	}
}

func (b *Bus) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := b.sendAll(ctx); err != nil {
		b.log.Warn("notify replicas failed, messages dropped", "error", err)
	}
}

// sendAll sends the unsent topics, and keeps them when that fails.
func (b *Bus) sendAll(ctx context.Context) error {
	b.mu.Lock()
	keys := slices.Collect(maps.Keys(b.unsent))
	clear(b.unsent)
	b.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	var messages []string
	for some := range slices.Chunk(keys, maxKeys) {
		messages = append(messages, encode(b.identity, some))
	}
	err := b.db.Notify(ctx, messages...)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, k := range keys {
			b.unsent[k] = struct{}{}
		}
		b.wakeSender()
	}
	return err
}

// wakeSender wakes the sender when there are unsent topics. The caller holds mu.
func (b *Bus) wakeSender() {
	if len(b.unsent) == 0 {
		return
	}
	select {
	case b.toSend <- struct{}{}:
	default:
	}
}

// pauses are the growing times between attempts.
type pauses struct{ next time.Duration }

func (p *pauses) reset() { p.next = 0 }

func (p *pauses) wait(ctx context.Context) {
	wait(ctx, p.next/2+rand.N(p.next/2+1))
	p.next = min(max(2*p.next, minPause), maxPause)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
