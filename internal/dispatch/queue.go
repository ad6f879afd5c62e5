package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
)

const (
	// maxBatch bounds the jobs of one set of rules that one look hands out.
	maxBatch = 250
	// lookTimeout bounds one look.
	lookTimeout = 10 * time.Second
)

// A queue is what a process knows of one queue: who waits in it, and what there was to hand out when it
// last looked. As long as somebody waits it has a goroutine, and never two, that matches jobs with agents.
type queue struct {
	dispatcher  *Dispatcher
	id          string
	woken       <-chan struct{} // has a token when there may be more to hand out
	unsubscribe func()
	used        time.Time     // when somebody last waited; under the dispatcher's lock
	poke        chan struct{} // has a token when the goroutine has something to do

	mu      sync.Mutex
	running bool // the goroutine is there
	waiting []*waiter
	number  uint64
	kinds   kinds
	share   identity.FairShare
	picked  map[string]int    // how many jobs of each set are being assigned
	taken   map[string]string // those jobs, and their pipelines
	// stale is set when there may be more to hand out than was seen. Else left has the sets that may
	// have jobs, with their rules; it is nil during a look.
	stale   bool
	left    map[string][]string
	trouble trouble
}

func newQueue(d *Dispatcher, id string) *queue {
	q := &queue{
		dispatcher: d,
		id:         id,
		used:       d.clock(),
		poke:       make(chan struct{}, 1),
		kinds:      kinds{},
		picked:     map[string]int{},
		taken:      map[string]string{},
		stale:      true,
	}
	q.woken, q.unsubscribe = d.bus.Subscribe(Topic(id))
	return q
}

// idle reports whether nobody waits, and nothing is being assigned.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.running && len(q.taken) == 0
}

// add adds one who waits. Unless there may be something for it, nobody is asked.
func (q *queue) add(w *waiter) {
	q.hearken()
	q.mu.Lock()
	defer q.mu.Unlock()
	w.kind, q.share = q.kinds.of(w.Tags), w.FairShare
	if w.brief && !q.stale && q.left != nil && !q.leaves(w) {
		w.answer <- ""
		return
	}
	q.line(w)
}

// line puts one who waits in its place. The caller holds mu.
func (q *queue) line(w *waiter) {
	q.number++
	w.number = q.number
	at, _ := slices.BinarySearchFunc(q.waiting, w, (*waiter).compare)
	q.waiting = slices.Insert(q.waiting, at, w)
	if !q.running {
		q.running = true
		go q.run()
	} else if q.stale || q.leaves(w) {
		q.prod()
	}
}

// leaves reports whether there may be jobs left that one who waits could take. The caller holds mu.
func (q *queue) leaves(w *waiter) bool {
	for set, rules := range q.left {
		if w.kind.takes(set, rules) {
			return true
		}
	}
	return false
}

// prod has the goroutine look at what there is to do.
func (q *queue) prod() {
	select {
	case q.poke <- struct{}{}:
	default: // it is about to
	}
}

// remove takes one who waits out of the line. It returns false when a job is being assigned to it: then
// it gets its answer when that is done.
func (q *queue) remove(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.picked {
		w.leaves = true
		return false
	}
	at, found := slices.BinarySearchFunc(q.waiting, w, (*waiter).compare)
	if !found {
		return false // it has its answer
	}
	q.waiting = slices.Delete(q.waiting, at, at+1)
	if len(q.waiting) == 0 {
		q.prod()
	}
	return true
}

// run matches jobs with agents as long as somebody waits.
func (q *queue) run() {
	for {
		pause := q.match()
		if pause == 0 && q.done() {
			return
		}
		var over <-chan time.Time
		if pause > 0 {
			over = time.After(pause)
		}
		select {
		case <-q.woken:
			q.doubt()
		case <-q.poke:
		case <-over:
		}
	}
}

// done ends the goroutine if nobody waits.
func (q *queue) done() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = len(q.waiting) > 0
	return !q.running
}

// match hands out what there is for those who wait, and returns how long to pause before trying again,
// if it must.
func (q *queue) match() (pause time.Duration) {
	q.hearken()
	for q.worth() {
		if pause := q.pause(); pause > 0 {
			return pause
		}
		picks, err := q.look()
		if err != nil {
			q.dispatcher.log.Warn("scan queue failed", "queue", q.id, "error", err)
			q.fail()
			continue
		}
		q.dispatcher.claims.add(picks)
	}
	return 0
}

// hearken takes in what the bus has said.
func (q *queue) hearken() {
	select {
	case <-q.woken:
		q.doubt()
	default:
	}
}

// doubt notes that there may be more to hand out than was seen.
func (q *queue) doubt() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stale = true
}

// worth reports whether a look could find something for somebody.
func (q *queue) worth() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0 && (q.stale || slices.ContainsFunc(q.waiting, q.leaves))
}

// look finds the best jobs for those who wait, and picks who gets which.
// A panic is an error like any other: the queue is looked at again after a pause.
func (q *queue) look() (picks []pick, err error) {
	defer core.CatchPanic(&err)
	q.mu.Lock()
	if len(q.waiting) == 0 {
		q.mu.Unlock()
		return nil, nil
	}
	orgID, share := q.waiting[0].OrganizationID, q.share
	q.stale, q.left = false, nil // what comes from now on may not be seen
	q.mu.Unlock()
	q.dispatcher.measures.looks.Inc()
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	var seen sight
	err = q.dispatcher.db.Read(ctx, func(sql *db.Q) (err error) {
		seen, err = q.see(sql, orgID, share)
		return err
	})
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pick(seen), nil
}
