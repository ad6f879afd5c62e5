package flow

import (
	"cmp"
	"slices"

	"stackyard/internal/rules/definition"
)

// A QueuedJob is a job in the queue of a concurrency group.
type QueuedJob struct {
	JobID string
	// Place is the position of the job's build in the queue, compared by bytes. See [Admit].
	Place string
	// Waiting is set for a job that cannot start yet. It only keeps jobs behind it from starting.
	Waiting  bool
	Limit    int
	Method   definition.ConcurrencyMethod
	Priority int
}

// Admit returns the ids of the jobs of a concurrency group that can be scheduled now, in the order to schedule
// them. holders is the number of jobs that hold a slot ([JobState.HoldsSlot]). If Admit returns any jobs, call
// it again.
//
// queue contains the jobs with Job.Queued; jobs of one place are sorted by build and position. An ordered job
// is admitted when fewer jobs than its limit hold a slot or are ahead of it. A job is ahead if its place is
// before, or if it has the same place and can start while the other waits, or comes earlier in the queue. An
// eager job is admitted when fewer jobs than its limit hold a slot; higher priorities come first. The caller
// needs to pass only the first (largest limit − holders) jobs in this order, plus as many eager jobs in theirs
// with a limit above holders.
//
// # Why no build gets stuck
//
// A queued job waits for the jobs ahead of it. Those may wait for other steps and, through triggers, for other
// builds. Three rules prevent a cycle:
//
//   - A build that a synchronous trigger waits for has the place of the waiting build. So builds that wait
//     for each other, to any depth, share one place: the place of the first. Every other build has its own
//     place behind all existing ones: a new build, a rebuild, and a build that an asynchronous trigger
//     started. A retry keeps the place of its build.
//   - At one place, jobs that can start are ahead of jobs that wait.
//   - A job that holds a slot waits for no other job, because only command jobs have concurrency groups.
//
// Proof: suppose that nothing can move: agents have no jobs, and no job waits for a person. Then no job holds a
// slot. Take the first place among the builds that have not ended. No job at this place is limited, because the
// first job in its group would have no job ahead of it. So every job there waits, or is a trigger that waits
// for a build at the same place. Chains of triggers are finite, so one of these builds has no waiting trigger;
// its jobs wait only for each other or for steps that do not exist. breakStuckSteps (propagate.go) ends those.
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
			break // the queue may lack some jobs with a larger limit
		}
		admitted = append(admitted, q.JobID)
	}
	return admitted
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
