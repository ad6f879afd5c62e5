package limits

import (
	"slices"
	"time"
)

const (
	// life is how long a lease lasts.
	life = time.Second
	// retry is how long a process waits that was not given what it wanted before it asks again.
	retry = 100 * time.Millisecond
)

// A lease lets a process let through so many requests a second, until it ends.
type lease struct {
	Process string `json:"process"`
	Share   int    `json:"share"`
	Want    int    `json:"want"`
	Used    int    `json:"used"`  // in the second before it was leased
	Until   int64  `json:"until"` // in microseconds of the database
}

// leases are those of one limit. A lease that has ended counts for as long as what was let through under
// it is within the window. So in any sliding second no process lets through more than the largest share
// that it has in the list at the second's end, and those add up to the limit at most.
type leases []lease

// renew gives a process a lease of as much as it wants and can have, in place of the one it has, if any.
func (all leases) renew(process string, want, used, limit int, now int64) (leases, lease) {
	mine := lease{Process: process, Want: want, Used: used, Until: now + life.Microseconds()}
	mine.Share = max(0, min(fair(limit, want, all.wants(process, now)), limit-all.held(process, now)))
	kept := leases{mine}
	for _, l := range all {
		if l.Process == process {
			l.Until, l.Want, l.Used = min(l.Until, now), 0, 0
			if l.Share <= mine.Share {
				continue // it counts for no more and for no longer
			}
		}
		if l.counts(now) {
			kept = append(kept, l)
		}
	}
	return kept, mine
}

func (l lease) counts(now int64) bool { return l.Until+window.Microseconds() > now }

// held returns what counts as taken by processes other than one.
func (all leases) held(except string, now int64) (sum int) {
	largest := map[string]int{}
	for _, l := range all {
		if l.Process != except && l.counts(now) {
			largest[l.Process] = max(largest[l.Process], l.Share)
		}
	}
	for _, share := range largest {
		sum += share
	}
	return sum
}

// wants returns what the processes other than one want that have a live lease, be it of nothing.
func (all leases) wants(except string, now int64) (wants []int) {
	for _, l := range all {
		if l.Process != except && l.Until > now {
			wants = append(wants, l.Want)
		}
	}
	return wants
}

// used returns what processes other than one let through in a second, when they last said.
func (all leases) used(except string, now int64) (sum int) {
	for _, l := range all {
		if l.Process != except && l.Until > now {
			sum += l.Used
		}
	}
	return sum
}

// fair returns what somebody gets of a limit who wants so much of it beside others: all of it, if that is
// enough for all; else those who want little get it, and the rest is split evenly.
func fair(limit, want int, others []int) int {
	all := append([]int{want}, others...)
	slices.Sort(all)
	for i, w := range all {
		even := limit / (len(all) - i)
		if w > even {
			return min(want, even)
		}
		limit -= w
	}
	return want
}

// nextWant returns how much of a limit a process asks for that wanted so much before and let so many
// requests through in the last second: a bit more than those, and twice as much as before when it had to
// refuse. Asking for more than is needed would keep it from others.
func nextWant(limit, before, used int, hungry bool) int {
	least := max(1, limit/64)
	if hungry {
		return min(limit, 2*max(before, least))
	}
	return min(limit, used+used/4+least)
}
