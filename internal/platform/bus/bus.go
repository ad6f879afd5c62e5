// Package bus wakes those who wait for a change, after it was committed, wherever they wait: in this
// process or in another replica.
//
// A topic is a short text that names what changed, such as "queue:ID" or "build:ID". A wake-up says
// only that something of a topic may have changed, never what: the truth is in the database. So
// wake-ups can be merged, repeated and come for nothing, and no harm is done. A subscriber that
// subscribes first, then looks, and looks again whenever it is woken misses no change:
//
//	woken, cancel := b.Subscribe("build:" + id)
//	defer cancel()
//	for {
//		… look; return when done …
//		select {
//		case <-woken:
//		case <-ctx.Done():
//			return ctx.Err()
//		}
//	}
//
// Topics come from [db.Q.Announce], inside of the write that makes the change, or from [Bus.Publish]
// after it. Within the process waking is immediate. Replicas that share a PostgreSQL database tell
// each other (replicas.go) as long as [Bus.Run] runs, and ask for what they were not told (poll.go),
// because one of them may have died before it did. A SQLite database is served by one process, and
// what another program writes to it wakes nobody.
package bus

import (
	"context"
	"hash/fnv"
	"log/slog"
	"sync"

	"stackyard/internal/platform/db"
)

// Bus is safe for concurrent use.
type Bus struct {
	db  *db.DB
	log *slog.Logger

	mu        sync.Mutex
	waiting   map[key]map[*subscriber]struct{}
	questions map[*question]struct{}
	unsent    map[key]struct{} // what other replicas have not been told
	toSend    chan struct{}    // holds a token while unsent is not empty
	identity  key              // by which it knows its own messages
}

// A key stands for a topic, so that every topic is equally short on its way to other replicas. Two
// topics with the same key wake each other's subscribers.
type key uint64

func keyOf(topic string) key {
	h := fnv.New64a()
	h.Write([]byte(topic))
	return key(h.Sum64())
}

// subscriber is one who waits.
type subscriber struct{ woken chan struct{} }

func (s *subscriber) wake() {
	select {
	case s.woken <- struct{}{}:
	default: // it has not looked since it was last woken
	}
}

// New returns a bus that hears what writes to d announce.
func New(d *db.DB, log *slog.Logger) *Bus {
	b := &Bus{
		db:        d,
		log:       log,
		waiting:   map[key]map[*subscriber]struct{}{},
		questions: map[*question]struct{}{},
		unsent:    map[key]struct{}{},
		toSend:    make(chan struct{}, 1),
		identity:  newIdentity(),
	}
	d.OnAnnounce(func(topics []string) { b.Publish(topics...) })
	return b
}

// Publish wakes the subscribers of topics, here and in other replicas. Call it after the change was
// committed.
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
	b.askToSend()
}

// Wake wakes the subscribers of topics in this process alone.
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

// wakeAll wakes everybody, since anything may have changed.
func (b *Bus) wakeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.waiting {
		b.wake(k)
	}
}

// Run exchanges wake-ups with other replicas until ctx is done; those that were published before are
// sent. Start it before anybody relies on them.
func (b *Bus) Run(ctx context.Context) error {
	if !b.db.Shared() {
		<-ctx.Done()
		return nil
	}
	var loops sync.WaitGroup
	loops.Go(func() { b.hear(ctx) })
	loops.Go(func() { b.send(ctx) })
	loops.Go(func() { b.poll(ctx) })
	loops.Wait()
	return nil
}
