package dispatch

import (
	"maps"
	"slices"

	"stackyard/internal/db"
	"stackyard/internal/identity"
)

// A sight is what a look has seen.
type sight struct {
	rules map[string][]string // of the sets that jobs have
	lanes []lane              // that were read, as far as they were wanted
	rows  []row
	// shares are how much the pipelines of the rows have, where they take turns.
	shares shares
	others bool // jobs that are tried again prefer other agents than before
}

// see reads which sets of rules there are, and the best jobs of those that somebody who waits could take.
func (q *queue) see(sql *db.Q, orgID string, share identity.FairShare) (s sight, err error) {
	sets, err := present(sql, q.id)
	if err != nil {
		return s, err
	}
	if s.rules, err = q.dispatcher.rules.Of(sql, orgID, sets[q.id]); err != nil {
		return s, err
	}
	s.lanes = q.wanted(s.rules)
	if share.On {
		if s.lanes, err = byPipeline(sql, q.id, s.lanes); err != nil {
			return s, err
		}
		if s.shares, err = sharesOf(sql, q.id, share, s.lanes); err != nil {
			return s, err
		}
	}
	if s.rows, err = best(sql, q.id, s.lanes); err != nil {
		return s, err
	}
	if slices.ContainsFunc(s.rows, func(r row) bool { return r.retryFrom != "" }) {
		s.others, err = prefersOthers(sql, q.id)
	}
	return s, err
}

// wanted returns how many jobs of each set those who wait could take. Jobs that are being assigned are
// still there to be read, and are counted in.
func (q *queue) wanted(rules map[string][]string) (lanes []lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, set := range slices.Sorted(maps.Keys(rules)) {
		n := 0
		for _, w := range q.waiting {
			if w.kind.takes(set, rules[set]) {
				n++
			}
			if n == maxBatch {
				break
			}
		}
		if n > 0 {
			lanes = append(lanes, lane{set: set, wanted: n + q.picked[set]})
		}
	}
	return lanes
}

// pick picks who gets which of the jobs that were seen. The caller holds mu.
func (q *queue) pick(s sight) []pick {
	var free []row
	for _, r := range s.rows {
		if q.taken[r.jobID] == "" {
			free = append(free, r)
		}
	}
	for _, pipelineID := range q.taken {
		s.shares.add(pipelineID)
	}
	picks := match(free, q.waiting, s)
	left := s.left(len(free) - len(picks))
	for _, p := range picks {
		p.waiter.picked = true
		q.taken[p.row.jobID] = p.row.pipelineID
		q.picked[p.row.set]++
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool { return w.picked })
	q.left = left
	q.dismiss()
	return picks
}

// dismiss lets those go who do not stay when there is nothing for them. The caller holds mu.
func (q *queue) dismiss() {
	if q.stale {
		return // there may be by now
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool {
		if !w.brief || q.leaves(w) {
			return false
		}
		w.answer <- ""
		return true
	})
}

// left returns the sets that may have jobs which nobody was picked for: those that were not read, those
// that have more than was wanted, and all that were read when some of it was not wanted after all.
func (s sight) left(unwanted int) map[string][]string {
	left := maps.Clone(s.rules)
	if unwanted > 0 {
		return left
	}
	seen := make(map[lane]int)
	for _, r := range s.rows {
		l := lane{set: r.set}
		if s.shares != nil {
			l.pipelineID = r.pipelineID
		}
		seen[l]++
	}
	more := make(map[string]bool)
	for _, l := range s.lanes {
		if seen[lane{set: l.set, pipelineID: l.pipelineID}] == l.wanted {
			more[l.set] = true
		}
	}
	for _, l := range s.lanes {
		if !more[l.set] {
			delete(left, l.set)
		}
	}
	return left
}
