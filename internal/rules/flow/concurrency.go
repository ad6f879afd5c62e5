package flow

import (
	"cmp"
	"slices"

	"stackyard/internal/rules/definition"
)

// A Queued is a job that stands in the queue of a concurrency group.
type QueuedJob struct {
	JobID string
	// Place is where the job's build stands in line, compared by bytes: see [Admit].
	Place string
	// Waiting is set for a job that may not start yet: it keeps others from its place, and nothing
	// more.
	Waiting  bool
	Limit    int
	Method   definition.ConcurrencyMethod
	Priority int
}

// Admit returns the ids of jobs of a concurrency group that may be scheduled now, in the order in which
// they should be. Holders is how many jobs hold a slot ([JobState.HoldsSlot]). When it returns some,
// ask again.
//
// Queue holds the jobs with Job.Queued, those of one place by build and position. An ordered job
// goes when fewer than its limit hold a slot or are ahead of it: have a place before it or, at the
// same place, can start while it waits, or else come before it in the queue. An eager job goes when
// fewer than its limit hold a slot, those with a higher priority first. It is enough to know of the
// first (largest limit − holders) jobs in this order, and of as many eager ones in theirs, whose limit
// is above holders.
//
// # Why no build is stuck
//
// A job in the queue waits for those ahead of it, which may wait for other steps and, through
// triggers, for other builds. Three rules keep that from going round in a circle.
//
//   - A build that a synchronous trigger waits for has the place of the build which waits. So all
//     that wait for one another, to any depth, have one place, that of the first of them. Any other
//     build has a place of its own, behind all that there are: a new one, a rebuilt one, and one
//     that an asynchronous trigger started. A retry keeps the place of its build.
//   - At one place those that can start are ahead of those that wait.
//   - Who holds a slot waits for no other job: only command jobs have concurrency groups.
//
// For suppose that nothing could move any more: agents have nothing, and no person is asked. Then
// nobody holds a slot. Of all places that builds have which are not over, look at the first. No job
// there is limited, for the first in its group would have nobody ahead of it. So all jobs there wait,
// or are triggers that wait for builds there; and a build whose triggers wait for nothing, which
// there is since chains of triggers end, has only jobs that wait for each other or for nobody. That
// is what unstick (settle.go) ends.
func Admit(holders int, queue []QueuedJob) []string {
	queue = slices.Clone(queue)
	slices.SortStableFunc(queue, func(a, b QueuedJob) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), compareBool(a.Waiting, b.Waiting))
	})
	var admitted []string
	var eager []QueuedJob
	for ahead, q := range queue {
		switch {
		case q.Waiting || q.Limit <= holders:
		case q.Method == definition.Eager:
			eager = append(eager, q)
		case holders+ahead < q.Limit:
			admitted = append(admitted, q.JobID)
		}
	}
	slices.SortStableFunc(eager, func(a, b QueuedJob) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, q := range eager {
		if holders+len(admitted) >= q.Limit {
			break // among those with a larger limit there may be some that the queue does not hold
		}
		admitted = append(admitted, q.JobID)
	}
	return admitted
}

// compareBool compares two of which those that are come after those that are not.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
