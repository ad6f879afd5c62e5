package bus

import (
	"sync"

	"stackyard/internal/platform/db"
)

// Watched is a set of resources that subscribers in this process watch, for example the builds whose pages are
// open. Topics wake their subscribers, as all others, and so does the poll when a notification was lost: it
// compares the versions of the resources with those of the last poll.
type Watched struct {
	bus      *Bus
	topic    func(id string) string
	versions func(q *db.Q, ids []string) (map[string]string, error)

	mu   sync.Mutex
	byID map[string]*watchedResource
}

type watchedResource struct {
	subscribers int
	polled      bool
	version     string
}

// Watch returns an empty set. versions returns, with one statement, a text for each resource that changes when
// the resource does; it omits resources that do not exist.
func (b *Bus) Watch(topic func(id string) string, versions func(q *db.Q, ids []string) (map[string]string, error)) *Watched {
	w := &Watched{bus: b, topic: topic, versions: versions, byID: map[string]*watchedResource{}}
	b.OnPoll(w.poll)
	return w
}

// Subscribe is [Bus.Subscribe] for one resource.
func (w *Watched) Subscribe(id string) (woken <-chan struct{}, cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.byID[id]
	if r == nil {
		r = &watchedResource{}
		w.byID[id] = r
	}
	r.subscribers++
	r.polled = false // the subscriber may not have read since the last poll
	woken, unsubscribe := w.bus.Subscribe(w.topic(id))
	return woken, sync.OnceFunc(func() {
		unsubscribe()
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.subscribers--; r.subscribers == 0 {
			delete(w.byID, id)
		}
	})
}

// poll wakes the subscribers of resources whose version has changed since the last poll, and of resources
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
		r := w.byID[id]
		if r == nil {
			continue
		}
		if !r.polled || r.version != versions[id] {
			w.bus.Wake(w.topic(id))
		}
		r.polled, r.version = true, versions[id]
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
