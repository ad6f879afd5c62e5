package dispatch

import (
	"slices"
)

// A pick is a job for a waiter.
type pick struct {
	waiter *waiter
	row    row
}

// match pairs jobs with waiters, which are in order: the best job goes to the best waiter that can take it,
// then the next. With fair share, the best job is the best one of the pipeline with the lowest share.
func match(rows []row, waiting []*waiter, seen snapshot) []pick {
	slices.SortFunc(rows, func(a, b row) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	m := matcher{snapshot: seen, waiting: waiting, given: make(map[*waiter]bool), next: make(map[string]int)}
	if seen.shares == nil {
		for _, r := range rows {
			m.assign(r)
		}
		return m.picks
	}
	m.assignFairly(rows)
	return m.picks
}

type matcher struct {
	snapshot
	waiting []*waiter
	given   map[*waiter]bool
	next    map[string]int // by rule set: all waiters before this index have a job or cannot take the set
	picks   []pick
}

// assign gives a job to the best waiter that can take it and has none, if there is one.
func (m *matcher) assign(r row) bool {
	at := m.next[r.set]
	for at < len(m.waiting) && !m.canTake(m.waiting[at], r) {
		at++
	}
	m.next[r.set] = at
	if at == len(m.waiting) {
		return false
	}
	w := m.waiting[at]
	if r.retryFrom != "" {
		w = m.pickForRetry(r, at)
	}
	m.given[w] = true
	m.picks = append(m.picks, pick{w, r})
	return true
}

// canTake reports whether a waiter has no job and can take this one.
func (m *matcher) canTake(w *waiter, r row) bool {
	return !m.given[w] && w.profile.matches(r.set, m.rules[r.set])
}

// pickForRetry returns the waiter for a retried job. The best waiter that can take it is at index at; among
// waiters of the same priority it is the one that worked last, or else the first that did not have the job
// before.
func (m *matcher) pickForRetry(r row, at int) *waiter {
	chosen := m.waiting[at]
	for _, w := range m.waiting[at+1:] {
		if m.preferDifferent && chosen.ID != r.retryFrom || !m.preferDifferent && w.rank(chosen) != 0 {
			break
		}
		if m.canTake(w, r) {
			chosen = w
		}
	}
	return chosen
}

// assignFairly hands out jobs, which are in order, so that the next one always comes from the pipeline with the
// lowest share for its weight; ties go to the better job.
func (m *matcher) assignFairly(rows []row) {
	byPipeline := make(map[string][]row)
	var order []string // pipelines, ordered by their best job
	for _, r := range rows {
		if byPipeline[r.pipelineID] == nil {
			order = append(order, r.pipelineID)
		}
		byPipeline[r.pipelineID] = append(byPipeline[r.pipelineID], r)
	}
	for len(order) > 0 && len(m.picks) < len(m.waiting) {
		least := 0
		for i, id := range order {
			if has, best := m.shares[id], m.shares[order[least]]; has.less(best) || !best.less(has) && byPipeline[id][0].before(byPipeline[order[least]][0]) {
				least = i
			}
		}
		id := order[least]
		if m.assign(byPipeline[id][0]) {
			m.shares.add(id)
		}
		if byPipeline[id] = byPipeline[id][1:]; len(byPipeline[id]) == 0 {
			order = slices.Delete(order, least, least+1)
		}
	}
}
