package dispatch

import "slices"

// A pick is a job for one who waits.
type pick struct {
	waiter *waiter
	row    row
}

// match pairs jobs with those who wait, who are in order: the best job is given to the best of those who
// can take it, then the next.
func match(rows []row, waiting []*waiter, rules map[string][]string) []pick {
	slices.SortFunc(rows, func(a, b row) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	var picks []pick
	given := make(map[*waiter]bool)
	next := make(map[string]int) // by set: everybody before that place has a job, or takes none of the set
	for _, r := range rows {
		at := next[r.set]
		for at < len(waiting) && (given[waiting[at]] || !waiting[at].kind.takes(r.set, rules[r.set])) {
			at++
		}
		next[r.set] = at
		if at < len(waiting) {
			given[waiting[at]] = true
			picks = append(picks, pick{waiting[at], r})
		}
	}
	return picks
}
