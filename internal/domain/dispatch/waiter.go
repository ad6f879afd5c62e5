package dispatch

import "cmp"

// A waiter is a waiting agent.
type waiter struct {
	Agent
	brief  bool // leave when there is no job
	queue  *queue
	answer chan string   // gets its job, or "" when it is to wait no more; never both
	gone   chan struct{} // closed when it no longer waits

	// Fields of the queue, guarded by its lock.
	profile *profile
	seq     uint64 // tie breaker
	picked  bool   // a job is being assigned to it
	leaving bool   // if the assignment fails, it stops waiting
}

// compare orders waiters by who gets the next job: highest priority first, then idle longest.
func (w *waiter) compare(other *waiter) int {
	return cmp.Or(w.rank(other), w.IdleSince.Compare(other.IdleSince), cmp.Compare(w.seq, other.seq))
}

// rank compares priorities.
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

// A profile is shared by agents with the same tags: which rule sets they satisfy. Each set is evaluated once,
// because sets never change.
type profile struct {
	tags      tags
	satisfies map[string]bool
}

// profiles are the profiles of a queue's agents, by tags.
type profiles map[string]*profile

// maxProfiles bounds the cached profiles.
const maxProfiles = 20_000

// get returns the profile of tags. key is their [TagsKey], or "".
func (k profiles) get(list []string, key string) *profile {
	if key == "" {
		key = TagsKey(list)
	}
	known := k[key]
	if known == nil {
		if len(k) >= maxProfiles {
			clear(k)
		}
		known = &profile{tags: tagsOf(list), satisfies: make(map[string]bool)}
		k[key] = known
	}
	return known
}

// matches reports whether agents with the profile satisfy a rule set.
func (k *profile) matches(set string, rules []string) bool {
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
