package dispatch

import (
	"slices"
)

// A pick is a job for one who waits.
type pick struct {
	waiter *waiter
	row    row
}

// match pairs jobs with those who wait, who are in order: the best job is given to the best of those who
// can take it, then the next. With shares, the best job is the best of the pipeline that has the least.
func match(rows []row, waiting []*waiter, seen sight) []pick {
	slices.SortFunc(rows, func(a, b row) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	m := matcher{sight: seen, waiting: waiting, given: make(map[*waiter]bool), next: make(map[string]int)}
	if seen.shares == nil {
		for _, r := range rows {
			m.give(r)
		}
		return m.picks
	}
	m.takeTurns(rows)
	return m.picks
}

type matcher struct {
	sight
	waiting []*waiter
	given   map[*waiter]bool
	next    map[string]int // by set: everybody before that place has a job, or takes none of the set
	picks   []pick
}

// give gives a job to the best of those who can take it and have none, if there is one.
func (m *matcher) give(r row) bool {
	at := m.next[r.set]
	for at < len(m.waiting) && !m.can(m.waiting[at], r) {
		at++
	}
	m.next[r.set] = at
	if at == len(m.waiting) {
		return false
	}
	w := m.waiting[at]
	if r.retryFrom != "" {
		w = m.again(r, at)
	}
	m.given[w] = true
	m.picks = append(m.picks, pick{w, r})
	return true
}

// can reports whether one who waits has no job and takes this one.
func (m *matcher) can(w *waiter, r row) bool {
	return !m.given[w] && w.kind.takes(r.set, m.rules[r.set])
}

// again returns who gets a job that is tried again. The best who can take it is at a place; of those with
// the same priority it is the one that has worked last, or else the first that is not who had it before.
func (m *matcher) again(r row, at int) *waiter {
	chosen := m.waiting[at]
	for _, w := range m.waiting[at+1:] {
		if m.others && chosen.ID != r.retryFrom || !m.others && w.rank(chosen) != 0 {
			break
		}
		if m.can(w, r) {
			chosen = w
		}
	}
	return chosen
}

// takeTurns gives out jobs, which are in order, so that the next is always of the pipeline that has the
// least for its weight; of several such, the best.
func (m *matcher) takeTurns(rows []row) {
	byPipeline := make(map[string][]row)
	var order []string // of their best jobs
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
		if m.give(byPipeline[id][0]) {
			m.shares.add(id)
		}
		if byPipeline[id] = byPipeline[id][1:]; len(byPipeline[id]) == 0 {
			order = slices.Delete(order, least, least+1)
		}
	}
}
