// Package lru is a bounded cache that evicts the entry that was used least recently.
package lru

import (
	"container/list"
	"sync"
)

// A Cache maps keys to values. It is safe for concurrent use. Create one with [New].
type Cache[K comparable, V any] struct {
	capacity int

	mu      sync.Mutex
	entries map[K]*list.Element
	recent  list.List // of entry, the most recently used first
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// New returns an empty cache of at most capacity entries.
func New[K comparable, V any](capacity int) *Cache[K, V] {
	return &Cache[K, V]{capacity: capacity, entries: make(map[K]*list.Element)}
}

// Get returns the value of a key and marks it as used.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return value, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true
}

// Add sets the value of a key, marks it as used, and returns the value that it evicts or replaces, if any.
func (c *Cache[K, V]) Add(key K, value V) (evicted V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, found := c.entries[key]; found {
		evicted = e.Value.(entry[K, V]).value
		e.Value = entry[K, V]{key, value}
		c.recent.MoveToFront(e)
		return evicted, true
	}
	c.entries[key] = c.recent.PushFront(entry[K, V]{key, value})
	if len(c.entries) <= c.capacity {
		return evicted, false
	}
	oldest := c.recent.Remove(c.recent.Back()).(entry[K, V])
	delete(c.entries, oldest.key)
	return oldest.value, true
}

// Look passes the value of a key to a function, which no other call runs beside, and reports whether there is one.
func (c *Cache[K, V]) Look(key K, fn func(value V)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if ok {
		fn(e.Value.(entry[K, V]).value)
	}
	return ok
}

// Take removes a key and returns its value.
func (c *Cache[K, V]) Take(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return value, false
	}
	delete(c.entries, key)
	return c.recent.Remove(e).(entry[K, V]).value, true
}

// Clear removes all entries and returns their values.
func (c *Cache[K, V]) Clear() []V {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := make([]V, 0, len(c.entries))
	for e := c.recent.Front(); e != nil; e = e.Next() {
		values = append(values, e.Value.(entry[K, V]).value)
	}
	clear(c.entries)
	c.recent.Init()
	return values
}

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}
