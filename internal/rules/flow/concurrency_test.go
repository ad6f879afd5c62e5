package flow

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stackyard/internal/rules/definition"
)

func TestConcurrency_AdmitsByMethod(t *testing.T) {
	ordered := func(id string, limit int) QueuedJob {
		return QueuedJob{JobID: id, Limit: limit, Method: definition.Ordered}
	}
	waits := func(q QueuedJob) QueuedJob { q.Waiting = true; return q }
	at := func(place string, q QueuedJob) QueuedJob { q.Place = place; return q }
	eager := func(id string, limit, priority int) QueuedJob {
		return QueuedJob{JobID: id, Limit: limit, Method: definition.Eager, Priority: priority}
	}
	for _, test := range []struct {
		name    string
		holders int
		queue   []QueuedJob
		want    []string
	}{
		{"nobody there", 0, nil, nil},
		{"in order of creation", 0, []QueuedJob{ordered("a", 2), ordered("b", 2), ordered("c", 2)}, []string{"a", "b"}},
		{"behind holders", 1, []QueuedJob{ordered("a", 2), ordered("b", 2)}, []string{"a"}},
		{"full", 2, []QueuedJob{ordered("a", 2)}, nil},
		{"by place", 0, []QueuedJob{at("2", ordered("a", 1)), at("1", ordered("b", 1))}, []string{"b"}},
		{"behind one that waits", 0, []QueuedJob{at("1", waits(ordered("a", 1))), at("2", ordered("b", 1))}, nil},
		{"beside one that waits", 0, []QueuedJob{at("1", waits(ordered("a", 2))), at("2", ordered("b", 2))}, []string{"b"}},
		{"past one that waits at the same place", 0, []QueuedJob{waits(ordered("a", 1)), ordered("b", 1)}, []string{"b"}},
		{"past all that wait at the same place", 0, []QueuedJob{at("1", waits(ordered("a", 2))), at("1", waits(ordered("b", 2))), at("1", ordered("c", 2)), at("2", ordered("d", 2))}, []string{"c"}},
		{"behind an eager one at an earlier place", 0, []QueuedJob{at("1", eager("a", 1, 0)), at("2", ordered("b", 1))}, []string{"a"}},
		{"each by its own limit", 1, []QueuedJob{ordered("a", 1), ordered("b", 3)}, []string{"b"}},
		{"eager by priority", 0, []QueuedJob{eager("a", 2, 0), eager("b", 2, 5), eager("c", 2, 1)}, []string{"b", "c"}},
		{"eager past one that waits", 0, []QueuedJob{at("1", waits(ordered("a", 1))), at("2", eager("b", 1, 0))}, []string{"b"}},
		{"eager in order where priority is the same", 1, []QueuedJob{eager("a", 2, 0), eager("b", 2, 0)}, []string{"a"}},
	} {
		if got := Admit(test.holders, test.queue); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// TestProperty_AdmitNeedsOnlyTheFirstJobs compares the result of Admit for a whole queue with its result for
// the few jobs that a store fetches.
func TestProperty_AdmitNeedsOnlyTheFirstJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var queue []QueuedJob
		most := 0
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			q := QueuedJob{
				JobID:    fmt.Sprint(i),
				Place:    fmt.Sprint(rapid.IntRange(1, 4).Draw(t, "place")),
				Waiting:  rapid.Bool().Draw(t, "waiting"),
				Limit:    rapid.IntRange(1, 4).Draw(t, "limit"),
				Method:   rapid.SampledFrom([]definition.ConcurrencyMethod{definition.Ordered, definition.Eager}).Draw(t, "method"),
				Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
			}
			q.Waiting = q.Waiting && q.Method == definition.Ordered
			queue = append(queue, q)
			most = max(most, q.Limit)
		}
		holders := rapid.IntRange(0, 4).Draw(t, "holders")
		slices.SortStableFunc(queue, func(a, b QueuedJob) int {
			return cmp.Or(cmp.Compare(a.Place, b.Place), compareBool(a.Waiting, b.Waiting))
		})
		want := admitAll(holders, queue)
		var got []string
		for went := []string{""}; len(went) > 0 && holders+len(got) < most; got = append(got, went...) {
			went = Admit(holders+len(got), fetch(queue, holders+len(got), most))
			queue = slices.DeleteFunc(queue, func(q QueuedJob) bool { return slices.Contains(went, q.JobID) })
		}
		if !slices.Equal(got, want) {
			t.Fatalf("went %v, want %v", got, want)
		}
	})
}

// admitAll returns all jobs of a sorted queue that can start.
func admitAll(holders int, queue []QueuedJob) (ids []string) {
	for ahead, q := range queue {
		if q.Method == definition.Ordered && !q.Waiting && holders+ahead < q.Limit {
			ids = append(ids, q.JobID)
		}
	}
	byPriority := slices.SortedStableFunc(slices.Values(queue), func(a, b QueuedJob) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, q := range byPriority {
		if q.Method == definition.Eager && holders+len(ids) < q.Limit {
			ids = append(ids, q.JobID)
		}
	}
	return ids
}

// fetch returns the jobs that Admit needs.
func fetch(queue []QueuedJob, holders, most int) []QueuedJob {
	eager := slices.DeleteFunc(slices.Clone(queue), func(q QueuedJob) bool { return q.Method != definition.Eager || q.Limit <= holders })
	slices.SortStableFunc(eager, func(a, b QueuedJob) int { return cmp.Compare(b.Priority, a.Priority) })
	first := slices.Clone(queue[:min(most-holders, len(queue))])
	for _, q := range eager[:min(most-holders, len(eager))] {
		if !slices.Contains(first, q) {
			first = append(first, q)
		}
	}
	return first
}

func TestConcurrency_RecordsHowLongAJobWasLimited(t *testing.T) {
	s := begin(t, command("a", limit("g", 1), parallel(2)), command("free"))
	s.wants("a/0", Scheduled)
	s.wants("a/1", Limited)
	if got := s.job("a/0").ConcurrencyWait; got == nil || *got != 0 {
		t.Errorf("the first waited %v", got)
	}
	if s.job("a/1").ConcurrencyWait != nil || s.job("free").ConcurrencyWait != nil {
		t.Error("a wait that has not ended, or did not exist, is reported")
	}
	limited := s.job("a/1").LimitedAt
	s.finish("a/0", 0)
	j := s.job("a/1")
	if j.State != Scheduled || j.ConcurrencyWait == nil || *j.ConcurrencyWait != s.now.Sub(limited) {
		t.Errorf("the second is %s and waited %v", j.State, j.ConcurrencyWait)
	}
}

func TestConcurrency_JobsBehindABlockQueueOnlyAfterItsRelease(t *testing.T) {
	s := begin(t, command("a"), wait("w"), command("b", limit("g", 1)), block("ask"), command("c", limit("g", 1)), wait("x"), command("d", limit("g", 1)))
	queued := func(want ...string) {
		t.Helper()
		var got []string
		for _, key := range []string{"b", "c", "d"} {
			if s.job(key).Queued {
				got = append(got, key)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("queued are %v, want %v", got, want)
		}
	}
	queued("b")
	s.finish("a", 0)
	queued()
	s.finish("b", 0)
	queued()
	s.on("ask", (*Run).Unblock)
	queued("d")
}
