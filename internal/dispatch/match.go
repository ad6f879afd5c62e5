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
func match(rows []row, waiting []*waiter, rules map[string][]string, shares shares) []pick {
	slices.SortFunc(rows, func(a, b row) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	m := matcher{waiting: waiting, rules: rules, given: make(map[*waiter]bool), next: make(map[string]int)}
	if shares == nil {
		for _, r := range rows {
			m.give(r)
		}
		return m.picks
	}
	m.takeTurns(rows, shares)
	return m.picks
}

type matcher struct {
	waiting []*waiter
	rules   map[string][]string
	given   map[*waiter]bool
	next    map[string]int // by set: everybody before that place has a job, or takes none of the set
	picks   []pick
}

// give gives a job to the best of those who can take it and have none, if there is one.
func (m *matcher) give(r row) bool {
	at := m.next[r.set]
	for at < len(m.waiting) && (m.given[m.waiting[at]] || !m.waiting[at].kind.takes(r.set, m.rules[r.set])) {
		at++
	}
	m.next[r.set] = at
	if at == len(m.waiting) {
		return false
	}
	m.given[m.waiting[at]] = true
	m.picks = append(m.picks, pick{m.waiting[at], r})
	return true
}

// takeTurns gives out jobs, which are in order, so that the next is always of the pipeline that has the
// least for its weight; of several such, the best.
func (m *matcher) takeTurns(rows []row, shares shares) {
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
			if has, best := shares[id], shares[order[least]]; has.less(best) || !best.less(has) && byPipeline[id][0].before(byPipeline[order[least]][0]) {
				least = i
			}
		}
		id := order[least]
		if m.give(byPipeline[id][0]) {
			shares.add(id)
		}
		if byPipeline[id] = byPipeline[id][1:]; len(byPipeline[id]) == 0 {
			order = slices.Delete(order, least, least+1)
		}
	}
}
