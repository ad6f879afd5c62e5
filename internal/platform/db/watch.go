package db

import (
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
)

// A Watch counts the changes to some tables, for caches of what was read from them. A cached value is valid while
// the version is the one from before it was read.
//
// It sees the statements of this process, and not what foreign keys delete or change: watch the table that they
// refer to. Another process can write to the same SQLite file; a cache of what it may change needs another check.
type Watch struct {
	tables  []string
	changes atomic.Int64
	// open counts the writes that have written to the tables and have not returned.
	open atomic.Int64
}

// Version returns a number that is larger after every write to the tables that has returned.
func (w *Watch) Version() int64 { return w.changes.Load() }

// Watch returns a watch of tables, or nil where other replicas write to them too.
func (d *DB) Watch(tables ...string) *Watch {
	if d.Shared() {
		return nil
	}
	w := &Watch{tables: tables}
	d.watches.add(w)
	return w
}

// watches are the watches of a database.
type watches struct {
	all    atomic.Pointer[[]*Watch] // nil: none
	mu     sync.Mutex               // held by add
	byText sync.Map                 // the watches that a statement concerns, by its text
	texts  atomic.Int64             // at most maxTexts in byText
}

// maxTexts bounds the memory for statements. Their texts are constants, apart from those that insert many rows.
const maxTexts = 5_000

func (w *watches) add(one *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*Watch
	if known := w.all.Load(); known != nil {
		all = slices.Clone(*known)
	}
	all = append(all, one)
	w.all.Store(&all)
	w.byText.Clear()
	w.texts.Store(0)
}

// concerned returns the watches of the tables that a statement writes to.
func (w *watches) concerned(text string) []*Watch {
	if known, ok := w.byText.Load(text); ok {
		return known.([]*Watch)
	}
	var concerned []*Watch
	if all := w.all.Load(); all != nil {
		for _, table := range writtenTables(text) {
			for _, one := range *all {
				if slices.Contains(one.tables, table) && !slices.Contains(concerned, one) {
					concerned = append(concerned, one)
				}
			}
		}
	}
	if w.texts.Add(1) > maxTexts {
		w.byText.Clear()
		w.texts.Store(1)
	}
	w.byText.Store(text, concerned)
	return concerned
}

var written = regexp.MustCompile(`(?i)\b(?:INTO|UPDATE|DELETE\s+FROM)\s+(\w+)`)

// writtenTables returns the tables that a statement may write to.
func writtenTables(text string) (tables []string) {
	for _, match := range written.FindAllStringSubmatch(text, -1) {
		tables = append(tables, match[1])
	}
	return tables
}

// watch makes q note the watches that its statements concern.
func (q *Q) watch(w *watches) {
	if w.all.Load() != nil {
		q.watches = w
	}
}

// concern notes that q writes to the tables of a watch.
func (q *Q) concern(w *Watch) {
	if !slices.Contains(q.concerned, w) {
		q.concerned = append(q.concerned, w)
		w.open.Add(1)
	}
}

// changed increments the versions of watches after a write.
func changed(watches []*Watch) {
	for _, w := range watches {
		w.changes.Add(1)
		w.open.Add(-1)
	}
}
