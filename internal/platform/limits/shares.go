package limits

import (
	"slices"
	"time"
)

const (
	// leaseTime is how long a lease lasts.
	leaseTime = time.Second
	// retry is how long a process that got less than it wanted waits before its next request.
	retry = 100 * time.Millisecond
)

// A lease allows a process to grant a number of requests per second, until it ends.
type lease struct {
	Process string `json:"process"`
	Share   int    `json:"share"`
	Want    int    `json:"want"`
	Used    int    `json:"used"`  // in the second before it was leased
	Until   int64  `json:"until"` // in microseconds of the database
}

// leases are the leases of one limit. A lease that has ended counts as long as requests granted under it are
// within the window. So in any sliding second no process grants more than its largest share in the list at the
// end of the second, and these add up to the limit at most.
type leases []lease

// renew gives a process a lease of as much as it wants and can get, and replaces its previous lease.
func (all leases) renew(process string, want, used, limit int, now int64) (leases, lease) {
	mine := lease{Process: process, Want: want, Used: used, Until: now + leaseTime.Microseconds()}
	mine.Share = max(0, min(fair(limit, want, all.wants(process, now)), limit-all.leased(process, now)))
	kept := leases{mine}
	for _, l := range all {
		if l.Process == process {
			l.Until, l.Want, l.Used = min(l.Until, now), 0, 0
			if l.Share <= mine.Share {
				continue // the new lease includes it
			}
		}
		if l.counts(now) {
			kept = append(kept, l)
		}
	}
	return kept, mine
}

func (l lease) counts(now int64) bool { return l.Until+window.Microseconds() > now }

// leased returns how much processes other than one have leased.
func (all leases) leased(except string, now int64) (sum int) {
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

// wants returns how much the processes other than one with a live lease want.
func (all leases) wants(except string, now int64) (wants []int) {
	for _, l := range all {
		if l.Process != except && l.Until > now {
			wants = append(wants, l.Want)
		}
	}
	return wants
}

// used returns what processes other than one granted in a second, as last reported.
func (all leases) used(except string, now int64) (sum int) {
	for _, l := range all {
		if l.Process != except && l.Until > now {
			sum += l.Used
		}
	}
	return sum
}

// fair returns the fair part of a limit for a process that wants so much besides others: all of it, if there is
// enough for all; otherwise processes that want little get that, and the rest is split evenly.
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

// nextWant returns how much of a limit a process requests, given its previous want and the requests it granted
// in the last second: a bit more than those, and twice its previous want when it had to refuse. Requesting more
// than needed would keep it from others.
func nextWant(limit, before, used int, exhausted bool) int {
	least := max(1, limit/64)
	if exhausted {
		return min(limit, 2*max(before, least))
	}
	return min(limit, used+used/4+least)
}
