package flow

import (
	"cmp"
	"slices"

	"stackyard/internal/definition"
)

// A Queued is a job that has a place in the queue of a concurrency group.
type Queued struct {
	JobID string
	// Waiting is set for a job that may not start yet: it holds its place, and nothing more.
	Waiting  bool
	Limit    int
	Method   definition.ConcurrencyMethod
	Priority int
}

// Admit returns the ids of the jobs of a concurrency group that may be scheduled now, in the order
// in which they should be. Holders is how many jobs hold a slot ([JobState.HoldsSlot]).
//
// Queue holds the jobs with Job.Queued in order: by creation of their build, then those limiting or
// limited before those waiting, then by position. Waiting jobs come last in their build because one
// of the others may be what they wait for. For ordered jobs the first (largest limit − holders)
// suffice, for eager ones those that are not waiting.
func Admit(holders int, queue []Queued) []string {
	var admitted []string
	var eager []Queued
	for ahead, q := range queue {
		switch {
		case q.Waiting:
		case q.Method == definition.Eager:
			eager = append(eager, q)
		case holders+ahead < q.Limit:
			admitted = append(admitted, q.JobID)
		}
	}
	slices.SortStableFunc(eager, func(a, b Queued) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, q := range eager {
		if holders+len(admitted) < q.Limit {
			admitted = append(admitted, q.JobID)
		}
	}
	return admitted
}
