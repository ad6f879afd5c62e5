package dispatch

import (
	"maps"
	"slices"

	"stackyard/internal/domain/quotas"
	"stackyard/internal/platform/db"
)

// A snapshot is the result of a scan.
type snapshot struct {
	rules map[string][]string // rule sets that jobs have
	lanes []lane              // lanes that were read, up to the wanted number of jobs
	rows  []row
	// shares of the rows' pipelines, with fair share.
	shares          shares
	preferDifferent bool // retried jobs prefer a different agent
}

// readSnapshot reads which rule sets exist, and the best jobs of those that a waiter could take.
func (q *queue) readSnapshot(sql *db.Q, orgID string, share quotas.FairShare) (s snapshot, err error) {
	sets, err := presentRuleSets(sql, q.id)
	if err != nil {
		return s, err
	}
	if s.rules, err = q.dispatcher.rules.Get(sql, orgID, sets[q.id]); err != nil {
		return s, err
	}
	s.lanes = q.wanted(s.rules)
	if share.On {
		if s.lanes, err = byPipeline(sql, q.id, s.lanes); err != nil {
			return s, err
		}
		if s.shares, err = q.dispatcher.sharesOf(sql, q.id, share, s.lanes); err != nil {
			return s, err
		}
	}
	if s.rows, err = bestRows(sql, q.id, s.lanes); err != nil {
		return s, err
	}
	if slices.ContainsFunc(s.rows, func(r row) bool { return r.retryFrom != "" }) {
		s.preferDifferent, err = prefersDifferent(sql, q.id)
	}
	return s, err
}

// wanted returns at least how many jobs of each rule set the waiters could take. Jobs that are being assigned still have
// rows and are added.
func (q *queue) wanted(rules map[string][]string) (lanes []lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, set := range slices.Sorted(maps.Keys(rules)) {
		n := 0
		for _, w := range q.waiting {
			if w.profile.matches(set, rules[set]) {
				n++
			}
			if n == maxBatch {
				break
			}
		}
		if n > 0 {
			lanes = append(lanes, lane{set: set, wanted: atLeast(n + q.picked[set])})
		}
	}
	return lanes
}

// pick picks who gets which job of a snapshot. The caller holds mu.
func (q *queue) pick(s snapshot) []pick {
	var free []row
	for _, r := range s.rows {
		if q.assigning[r.jobID] == "" {
			free = append(free, r)
		}
	}
	for _, pipelineID := range q.assigning {
		s.shares.add(pipelineID)
	}
	picks := match(free, q.waiting, s)
	left := s.remaining(len(free) - len(picks))
	for _, p := range picks {
		p.waiter.picked = true
		q.assigning[p.row.jobID] = p.row.pipelineID
		q.picked[p.row.set]++
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool { return w.picked })
	q.remaining = left
	q.answerBrief()
	return picks
}

// answerBrief answers waiters that return as soon as there is no job for them. The caller holds mu.
func (q *queue) answerBrief() {
	if q.stale {
		return // there may be jobs by now
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool {
		if !w.brief || q.hasJobFor(w) {
			return false
		}
		w.answer <- ""
		return true
	})
}

// remaining returns the rule sets that may still have jobs: those that were not read, those with more jobs than
// wanted, and all that were read if some of their jobs were not picked.
func (s snapshot) remaining(unwanted int) map[string][]string {
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
		if seen[lane{set: l.set, pipelineID: l.pipelineID}] >= l.wanted {
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
