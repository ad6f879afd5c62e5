package db

import "sync"

// Announce names what this write changes, with short texts like "build:ID". The functions of [DB.OnAnnounce]
// get the topics after the commit, and never when the function given to Write returned an error.
func (q *Q) Announce(topics ...string) { q.topics = append(q.topics, topics...) }

// OnAnnounce registers fn to run after each commit of this process with the topics that the write announced, on
// the goroutine that called Write. It also runs when the answer of a commit was lost, so a topic means that
// something may have changed.
func (d *DB) OnAnnounce(fn func(topics []string)) { d.subscribers.add(fn) }

// subscribers are the functions registered with OnAnnounce.
type subscribers struct {
	mu        sync.RWMutex
	functions []func(topics []string)
}

func (s *subscribers) add(fn func([]string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.functions = append(s.functions, fn)
}

func (s *subscribers) notify(topics []string) {
	if len(topics) == 0 {
		return
	}
	s.mu.RLock()
	functions := s.functions // only ever appended to
	s.mu.RUnlock()
	for _, fn := range functions {
		fn(topics)
	}
}

// AnnounceIfUnknown announces topics only when it is unknown whether the write was committed, for a write whose
// AfterCommit functions do what subscribers would do.
func (q *Q) AnnounceIfUnknown(topics ...string) { q.unknown = append(q.unknown, topics...) }

// AfterCommit runs fn once when the write has been committed: before Write returns, before subscribers get the topics of
// the write, and on SQLite in the order of the writes. fn must not fail, wait or use the database: other writers wait.
func (q *Q) AfterCommit(fn func()) { q.after = append(q.after, fn) }
