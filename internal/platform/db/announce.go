package db

import "sync"

// Announce names what this write changes, with short texts such as "build:ID". Whoever asked with
// [DB.OnAnnounce], which is mostly a bus, hears of them after the commit, and never when the function
// given to Write returned an error.
func (q *Q) Announce(topics ...string) { q.topics = append(q.topics, topics...) }

// OnAnnounce has tell called after each commit of this process with the topics that the write
// announced, on the goroutine of the writer. After a commit whose answer was lost it is called too,
// so hearing of a topic means that it may have changed.
func (d *DB) OnAnnounce(tell func(topics []string)) { d.audience.add(tell) }

// audience are those who hear of announcements.
type audience struct {
	mu      sync.RWMutex
	members []func(topics []string)
}

func (a *audience) add(tell func([]string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members = append(a.members, tell)
}

func (a *audience) hear(topics []string) {
	if len(topics) == 0 {
		return
	}
	a.mu.RLock()
	members := a.members // only ever appended to
	a.mu.RUnlock()
	for _, tell := range members {
		tell(topics)
	}
}
