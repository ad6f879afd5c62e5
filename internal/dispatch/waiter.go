package dispatch

import (
	"cmp"
	"slices"
	"strings"
)

// A waiter is an agent while it waits.
type waiter struct {
	Agent
	brief  bool // it leaves when there is nothing for it
	queue  *queue
	answer chan string   // gets its job, or "" when it is to wait no more; never both
	gone   chan struct{} // closed when it waits no more

	// Of the queue, under its lock.
	kind   *kind
	number uint64 // orders those that are alike
	picked bool   // a job is being assigned to it
	leaves bool   // if that comes to nothing, it does not wait any longer
}

// compare orders agents by who gets the next job: the highest priority first, and of those with the same
// who has been idle for longest.
func (w *waiter) compare(other *waiter) int {
	return cmp.Or(w.rank(other), w.IdleSince.Compare(other.IdleSince), cmp.Compare(w.number, other.number))
}

// rank orders agents by priority.
func (w *waiter) rank(other *waiter) int {
	if (w.Priority == nil) != (other.Priority == nil) {
		if w.Priority == nil {
			return 1
		}
		return -1
	}
	if w.Priority == nil {
		return 0
	}
	return cmp.Compare(*other.Priority, *w.Priority)
}

// A kind is what agents with the same tags have in common: which sets of rules they satisfy. Each is
// found out once, since a set never changes.
type kind struct {
	tags      tags
	satisfies map[string]bool
}

// kinds are the kinds of agents of a queue, by their tags.
type kinds map[string]*kind

// maxKinds bounds the kinds that are remembered when nobody of them waits.
const maxKinds = 20_000

func (k kinds) of(list []string) *kind {
	list = slices.Sorted(slices.Values(list))
	name := strings.Join(list, "\x00")
	known := k[name]
	if known == nil {
		if len(k) >= maxKinds {
			clear(k)
		}
		known = &kind{tags: tagsOf(list), satisfies: make(map[string]bool)}
		k[name] = known
	}
	return known
}

// takes reports whether agents of the kind take jobs with a set of rules.
func (k *kind) takes(set string, rules []string) bool {
	takes, known := k.satisfies[set]
	if !known {
		takes = k.tags.satisfy(rules)
		if len(k.satisfies) >= maxRuleSets {
			clear(k.satisfies)
		}
		k.satisfies[set] = takes
	}
	return takes
}
