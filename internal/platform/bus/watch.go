package bus

import (
	"sync"

	"stackyard/internal/platform/db"
)

// Watched are things that subscribers in this process watch, such as the builds whose pages are open. Their
// subscribers are woken by topics like all others and, when a notification was lost, by the poll: it compares
// the versions that things have with those that they had at the last poll.
type Watched struct {
	bus      *Bus
	topic    func(id string) string
	versions func(q *db.Q, ids []string) (map[string]string, error)

	mu   sync.Mutex
	byID map[string]*watchedThing
}

type watchedThing struct {
	subscribers int
	polled      bool
	version     string
}

// Watch returns a set that watches nothing yet. versions returns, with one statement, a text for each thing
// that changes when the thing does; those that do not exist are left out.
func (b *Bus) Watch(topic func(id string) string, versions func(q *db.Q, ids []string) (map[string]string, error)) *Watched {
	w := &Watched{bus: b, topic: topic, versions: versions, byID: map[string]*watchedThing{}}
	b.OnPoll(w.poll)
	return w
}

// Subscribe is [Bus.Subscribe] for one thing.
func (w *Watched) Subscribe(id string) (woken <-chan struct{}, cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	thing := w.byID[id]
	if thing == nil {
		thing = &watchedThing{}
		w.byID[id] = thing
	}
	thing.subscribers++
	thing.polled = false // it is unknown whether the subscriber has read the last poll
	woken, unsubscribe := w.bus.Subscribe(w.topic(id))
	return woken, sync.OnceFunc(func() {
		unsubscribe()
		w.mu.Lock()
		defer w.mu.Unlock()
		if thing.subscribers--; thing.subscribers == 0 {
			delete(w.byID, id)
		}
	})
}

// poll wakes the subscribers of things that have another version than at the last poll, and those of things
// that were not polled before.
func (w *Watched) poll(q *db.Q) error {
	ids := w.ids()
	if len(ids) == 0 {
		return nil
	}
	versions, err := w.versions(q, ids)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		thing := w.byID[id]
		if thing == nil {
			continue
		}
		if !thing.polled || thing.version != versions[id] {
			w.bus.Wake(w.topic(id))
		}
		thing.polled, thing.version = true, versions[id]
	}
	return nil
}

func (w *Watched) ids() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]string, 0, len(w.byID))
	for id := range w.byID {
		ids = append(ids, id)
	}
	return ids
}
