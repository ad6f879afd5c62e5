package flow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"stackyard/internal/rules/definition"
)

// An organization is a set of builds that share concurrency groups.
type organization struct {
	builds []*memory
	ids    int
}

func (o *organization) newID() string {
	o.ids++
	return fmt.Sprintf("id-%06d", o.ids)
}

// newBuild adds a build without steps, at a place of the concurrency queues or, if place is empty, behind all
// others.
func (o *organization) newBuild(place string) *memory {
	m := &memory{
		org:        o,
		place:      cmp.Or(place, o.newID()),
		build:      Build{State: BuildCreating},
		steps:      map[string]*Step{},
		jobs:       map[string]*Job{},
		byStep:     map[string][]string{},
		dependents: map[string][]Edge{},
		members:    map[string][]string{},
		now:        time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	o.builds = append(o.builds, m)
	return m
}

// A queue describes a concurrency group.
type queue struct {
	holders int
	most    int // the largest limit of the jobs that hold a slot or are queued
	queued  []QueuedJob
	builds  map[string]*memory // by queued job
}

func (o *organization) queue(group string) queue {
	q := queue{builds: map[string]*memory{}}
	for _, m := range o.builds {
		members := slices.SortedFunc(slices.Values(m.members[group]), func(a, b string) int {
			return cmp.Compare(m.steps[a].Position, m.steps[b].Position)
		})
		for _, id := range members {
			limits := m.steps[id].Concurrency
			for _, j := range m.newest(id) {
				if j.State.HoldsSlot() {
					q.holders++
				}
				if j.State.HoldsSlot() || j.Queued {
					q.most = max(q.most, limits.Limit)
				}
				if j.Queued {
					q.queued = append(q.queued, QueuedJob{JobID: j.ID, Place: m.place, Waiting: j.State == Waiting, Limit: limits.Limit, Method: limits.Method})
					q.builds[j.ID] = m
				}
			}
		}
	}
	return q
}

// admit schedules the jobs that a concurrency group admits, and marks new ones that it does not as limited.
func (o *organization) admit(group string) error {
	q := o.queue(group)
	for ids := Admit(q.holders, q.queued); len(ids) > 0; ids = Admit(q.holders, q.queued) {
		for _, id := range ids {
			if _, err := q.builds[id].run(func(r *Run) error { return r.Schedule(id) }); err != nil {
				return err
			}
		}
		q = o.queue(group)
	}
	for id, m := range q.builds {
		if m.jobs[id].State == Limiting {
			if _, err := m.run(func(r *Run) error { return r.Limit(id) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// verify checks that concurrency groups admit as many jobs as they can, and no more.
func (o *organization) verify() error {
	groups := map[string]bool{}
	for _, m := range o.builds {
		for group := range m.members {
			groups[group] = true
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		q := o.queue(group)
		if q.holders > q.most {
			return fmt.Errorf("%d jobs hold slots of %s; %d are the most", q.holders, group, q.most)
		}
		for i, j := range q.queued {
			if !j.Waiting && q.holders+q.ahead(i) < j.Limit {
				return fmt.Errorf("job %s could go in %s and was not let", j.JobID, group)
			}
		}
	}
	return nil
}

// ahead counts the jobs that must start before a queued one.
func (q queue) ahead(i int) (n int) {
	me := q.queued[i]
	if me.Method == definition.Eager {
		return 0
	}
	for other, o := range q.queued {
		switch {
		case o.Place < me.Place, o.Place == me.Place && !o.Waiting && other < i:
			n++
		}
	}
	return n
}
