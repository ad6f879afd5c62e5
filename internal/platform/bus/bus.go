// Package bus wakes subscribers after a change was committed, in this process and in other replicas.
//
// A topic is a short text that names what changed, for example "queue:ID" or "build:ID". A wake-up means only
// that something about a topic may have changed; the database has the truth. So wake-ups can be merged,
// repeated and spurious. A subscriber that subscribes first, then reads, and reads again whenever it is woken,
// misses no change:
//
//	woken, cancel := b.Subscribe("build:" + id)
//	defer cancel()
//	for {
//		… read; return when done …
//		select {
//		case <-woken:
//		case <-ctx.Done():
//			return ctx.Err()
//		}
//	}
//
// Topics come from [db.Q.Announce], in the write that makes the change, or from [Bus.Publish] after it. Within
// the process the wake-up is immediate. Replicas that share a PostgreSQL database notify each other
// (replicas.go) while [Bus.Run] runs. They also poll (poll.go), because a replica may die before it notifies
// others. A SQLite database is served by one process; writes of other programs wake no subscriber.
package bus

import (
	"context"
	"hash/fnv"
	"log/slog"
	"sync"

	"stackyard/internal/platform/db"
)

// Bus delivers wake-ups. It is safe for concurrent use.
type Bus struct {
	db  *db.DB
	log *slog.Logger

	mu       sync.Mutex
	waiting  map[key]map[*subscriber]struct{}
	pollers  map[*poller]struct{}
	unsent   map[key]struct{} // not yet sent to other replicas
	toSend   chan struct{}    // holds a token while unsent is not empty
	identity key              // marks its own messages
}

// A key is the hash of a topic, so that all topics are equally short in messages to other replicas. Two topics
// with the same key wake each other's subscribers.
type key uint64

func keyOf(topic string) key {
	h := fnv.New64a()
	h.Write([]byte(topic))
	return key(h.Sum64())
}

// subscriber is one subscription.
type subscriber struct{ woken chan struct{} }

func (s *subscriber) wake() {
	select {
	case s.woken <- struct{}{}:
	default: // it has not read since it was last woken
	}
}

// New returns a bus that publishes the topics that writes to d announce.
func New(d *db.DB, log *slog.Logger) *Bus {
	b := &Bus{
		db:       d,
		log:      log,
		waiting:  map[key]map[*subscriber]struct{}{},
		pollers:  map[*poller]struct{}{},
		unsent:   map[key]struct{}{},
		toSend:   make(chan struct{}, 1),
		identity: newIdentity(),
	}
	d.OnAnnounce(func(topics []string) { b.Publish(topics...) })
	return b
}

// Publish wakes the subscribers of topics, here and in other replicas. Call it after the change was committed.
func (b *Bus) Publish(topics ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, topic := range topics {
		k := keyOf(topic)
		b.wake(k)
		if b.db.Shared() {
			b.unsent[k] = struct{}{}
		}
	}
	b.wakeSender()
}

// PublishElsewhere wakes the subscribers of topics in other replicas only.
func (b *Bus) PublishElsewhere(topics ...string) {
	if !b.db.Shared() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, topic := range topics {
		b.unsent[keyOf(topic)] = struct{}{}
	}
	b.wakeSender()
}

// Wake wakes the subscribers of topics in this process only.
func (b *Bus) Wake(topics ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, topic := range topics {
		b.wake(keyOf(topic))
	}
}

// Subscribe returns a channel that holds a token when one of the topics may have changed since the
// last token was taken, and a function that ends the subscription. The channel is never closed.
func (b *Bus) Subscribe(topics ...string) (woken <-chan struct{}, cancel func()) {
	s := &subscriber{woken: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, topic := range topics {
		k := keyOf(topic)
		if b.waiting[k] == nil {
			b.waiting[k] = map[*subscriber]struct{}{}
		}
		b.waiting[k][s] = struct{}{}
	}
	return s.woken, func() { b.unsubscribe(s, topics) }
}

func (b *Bus) unsubscribe(s *subscriber, topics []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, topic := range topics {
		k := keyOf(topic)
		delete(b.waiting[k], s)
		if len(b.waiting[k]) == 0 {
			delete(b.waiting, k)
		}
	}
}

// wake wakes the subscribers of one topic. The caller holds mu.
func (b *Bus) wake(k key) {
	for s := range b.waiting[k] {
		s.wake()
	}
}

// wakeAll wakes all subscribers, because anything may have changed.
func (b *Bus) wakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.waiting {
		b.wake(k)
	}
}

// Run exchanges wake-ups with other replicas until ctx ends; then it sends those already published.
func (b *Bus) Run(ctx context.Context) error {
	if !b.db.Shared() {
		<-ctx.Done()
		return nil
	}
	var loops sync.WaitGroup
	loops.Go(func() { b.listen(ctx) })
	loops.Go(func() { b.send(ctx) })
	loops.Go(func() { b.poll(ctx) })
	loops.Wait()
	return nil
}
