package db

import "stackyard/internal/platform/lru"

// Cached keeps values that are read from some tables, where this process is the only one that writes to them: on SQLite.
// On PostgreSQL nothing is kept. Callers must not change a value.
//
// An organization file that another process applies changes tables too, so a key needs something that is another value
// then: a pointer to an organization of the directory.
type Cached[K comparable, V any] struct {
	watch  *Watch // nil: nothing is kept
	values *lru.Cache[K, cachedValue[V]]
}

type cachedValue[V any] struct {
	version int64 // from before the value was read
	value   V
}

// NewCached returns a cache of at most size values that are read from tables, and from no others.
func NewCached[K comparable, V any](d *DB, size int, tables ...string) *Cached[K, V] {
	return &Cached[K, V]{watch: d.Watch(tables...), values: lru.New[K, cachedValue[V]](size)}
}

// Get returns the value of a key, which read reads if it is not known. In a write it is the value that read would return
// there.
func (c *Cached[K, V]) Get(q *Q, key K, read func(q *Q) (V, error)) (V, error) {
	if c.watch == nil || q.writing && c.watch.open.Load() > 0 { // the transaction may have changed it
		return read(q)
	}
	version := c.watch.Version()
	if known, ok := c.values.Get(key); ok && known.version == version {
		return known.value, nil
	}
	value, err := read(q)
	if err == nil {
		c.values.Add(key, cachedValue[V]{version, value})
	}
	return value, err
}
