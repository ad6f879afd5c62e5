package flow

import (
	"cmp"
	"errors"
	"flag"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stackyard/internal/platform/core"
)

// Run more cases than usual, because the interesting ones are rare. A failure reports its seed.
func init() {
	flag.Set("rapid.checks", "1000")
	flag.Set("rapid.nofailfile", "true")
}

// A drive runs a random pipeline to its end.
type drive struct {
	*memory
	t       *rapid.T
	list    *list
	plans   map[string]*plan
	uploads map[string]int // done, by key
}

func newDrive(t *rapid.T, l *list) *drive { return driveIn(newMemory(), t, l) }

// driveIn starts a build of a random pipeline.
func driveIn(m *memory, t *rapid.T, l *list) *drive {
	d := &drive{memory: m, t: t, list: l, plans: map[string]*plan{}, uploads: map[string]int{}}
	walk(l.plans, func(p *plan) { d.plans[p.key] = p })
	d.event("begin", func(r *Run) error { return r.Begin(specs(l.plans)) })
	return d
}

// event runs an event that must succeed, and checks all counts.
func (d *drive) event(name string, event func(*Run) error) {
	if err := d.do(event); err != nil {
		d.t.Fatalf("%s: %v\n%s", name, err, d.list)
	}
	d.check(name)
}

func (d *drive) check(name string) {
	if err := cmp.Or(d.verify(), d.org.verify()); err != nil {
		d.t.Fatalf("after %s: %v\n%s", name, err, d.list)
	}
}

// An action is something that can happen next.
type action struct {
	name string
	do   func(*Run) error
}

// actions returns everything that can happen next.
func (d *drive) actions() (actions []action) {
	for _, id := range d.order {
		j := d.jobs[id]
		if j.State.Ended() {
			continue
		}
		if name, do := d.next(j); do != nil {
			actions = append(actions, action{name + " " + d.steps[j.StepID].Key + " " + id, do})
		}
	}
	return actions
}

func (d *drive) next(j *Job) (string, func(*Run) error) {
	p := d.plans[d.steps[j.StepID].Key]
	if p == nil { // it replaced others
		p = &plan{}
	}
	id := j.ID
	index, attempt := d.which(j)
	first := index == 0 && attempt == 0
	switch {
	case j.State == Blocked:
		return "unblock", func(r *Run) error { return r.Unblock(id) }
	case j.State == Scheduled && first && p.fate == "cancel":
		return "cancel", func(r *Run) error { return r.CancelJob(id) }
	case j.State == Scheduled && first && p.fate == "expire":
		return "expire", func(r *Run) error { return r.Expire(id) }
	case j.State == Scheduled && j.Type == Trigger:
		return "create child of", func(r *Run) error { return r.ChildCreated(id) }
	case j.State == Running && j.Type == Trigger:
		return "finish child of", func(r *Run) error { return r.ChildFinished(id, p.exit(index, attempt) == 0) }
	case j.State == Scheduled:
		return "assign", func(r *Run) error { return r.Assign(id, "agent") }
	case j.State == Assigned:
		return "accept", func(r *Run) error { return r.Accept(id, "") }
	case j.State == Accepted:
		return "start", func(r *Run) error { return r.Start(id, "") }
	case j.State == Running && first && d.uploads[p.key] < len(p.uploads):
		return "upload from", func(r *Run) error {
			d.uploads[p.key]++
			return r.AddSteps(id, specs(p.uploads[d.uploads[p.key]-1]), false)
		}
	case j.State == Running && first && p.fate == "timeout":
		return "time out", func(r *Run) error { return r.TimeOut(id) }
	case j.State == Running, j.State == TimingOut, j.State == Canceling:
		return "finish", func(r *Run) error { return r.Finish(id, "", Exit{Status: p.exit(index, attempt)}) }
	}
	return "", nil
}

// which returns the index of the job in its step, and the number of the attempt.
func (d *drive) which(j *Job) (index, attempt int) {
	attempt = j.RetriesCount
	for j.RetryOf != "" {
		j = d.jobs[j.RetryOf]
	}
	roots := slices.DeleteFunc(slices.Clone(d.byStep[j.StepID]), func(id string) bool { return d.jobs[id].RetryOf != "" })
	return slices.Index(roots, j.ID), attempt
}

// finish runs random actions until there are none.
func (d *drive) finish() {
	for {
		actions := d.actions()
		if len(actions) == 0 {
			break
		}
		a := actions[rapid.IntRange(0, len(actions)-1).Draw(d.t, "next")]
		d.event(a.name, a.do)
	}
	if !d.build.State.Ended() {
		d.t.Fatalf("the build is stuck in %s: %+v\n%s", d.build.State, d.build.Counts, d.list)
	}
	if d.build.FinishedAt.IsZero() {
		d.t.Fatalf("the build has ended and FinishedAt is not set")
	}
}

// results returns the states of jobs, by step and index.
func (d *drive) results() map[string][]JobState {
	results := map[string][]JobState{}
	for _, s := range d.visible() {
		for _, id := range d.byStep[s.ID] {
			j := d.jobs[id]
			if j.RetryOf != "" {
				continue
			}
			for j.Retried {
				j = d.jobs[j.RetriedIn]
			}
			results[s.Key] = append(results[s.Key], j.APIState())
		}
	}
	return results
}

func compare(d *drive, jobs map[string][]JobState, build BuildState) {
	got := d.results()
	for _, key := range slices.Sorted(maps.Keys(jobs)) {
		if !slices.Equal(got[key], jobs[key]) {
			d.t.Errorf("%s ended as %v and not as %v", key, got[key], jobs[key])
		}
	}
	if !reflect.DeepEqual(got, jobs) || d.build.State != build {
		d.t.Fatalf("the build ended as %s and not as %s\ngot  %v\nwant %v\n%s", d.build.State, build, got, jobs, d.list)
	}
}

func TestProperty_BuildsEndAsTheRulesSay(t *testing.T) {
	cases, events := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		draw := drawer{t: t, noConcurrency: true}
		d := newDrive(t, draw.pipeline())
		d.finish()
		jobs, build := newOracle(d.list).results()
		compare(d, jobs, build)
		cases++
		events += d.events
	})
	t.Logf("%d pipelines, %d events", cases, events)
}

func TestProperty_OrderOfIndependentEventsDoesNotMatter(t *testing.T) {
	cases, events := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		// The order of uploads decides which members of a concurrency group are ahead of a step, so leave
		// uploaded members out.
		draw := drawer{t: t, noUploadedConcurrency: true}
		l := draw.pipeline()
		first, second := newDrive(t, l), newDrive(t, l)
		first.finish()
		second.finish()
		compare(second, first.results(), first.build.State)
		cases++
		events += first.events + second.events
	})
	t.Logf("%d pipelines, %d events", cases, events)
}

// TestProperty_WhatPeopleDoKeepsBuildsSound lets people and agents act at random times. After each event all
// counts are recomputed; at the end the build must end and stay ended.
func TestProperty_WhatPeopleDoKeepsBuildsSound(t *testing.T) {
	cases, events, moved := 0, 0, map[BuildState]int{}
	rapid.Check(t, func(t *rapid.T) {
		draw := drawer{t: t, flags: true}
		l := draw.pipeline()
		d := newDrive(t, l)
		for range rapid.IntRange(0, 40).Draw(t, "disturbances") {
			if actions := d.actions(); len(actions) > 0 && draw.chance(60, "as planned") {
				a := actions[rapid.IntRange(0, len(actions)-1).Draw(t, "next")]
				d.event(a.name, a.do)
				continue
			}
			d.disturb(&draw)
		}
		d.finish()
		d.refuseToMove()
		cases++
		events += d.events
		for _, state := range d.states {
			moved[state]++
		}
	})
	t.Logf("%d pipelines, %d events, states %v", cases, events, moved)
}

// disturb runs an event outside the plan.
func (d *drive) disturb(draw *drawer) {
	j := d.jobs[d.order[rapid.IntRange(0, len(d.order)-1).Draw(d.t, "job")]]
	ended := d.build.State.Ended()
	what := rapid.SampledFrom([]string{"retry", "retry", "retry", "cancel", "promise", "return", "finish", "replace", "time out", "lose", "cancel build", "skip build"}).Draw(d.t, "disturbance")
	if (what == "cancel build" || what == "skip build") && !draw.chance(20, "really") {
		return
	}
	id := j.ID
	err := d.do(func(r *Run) error {
		switch what {
		case "retry":
			_, err := r.Retry(id)
			return err
		case "cancel":
			return r.CancelJob(id)
		case "promise":
			return r.Promise(id, "", 1, true)
		case "return":
			return r.Return(id, "")
		case "finish":
			return r.FinishUnstarted(id, Exit{Status: -1, SignalReason: "stack_error"})
		case "replace":
			return r.AddSteps(id, steps(command("", parallel(2)), wait(""), command("")), true)
		case "time out":
			return r.TimeOut(id)
		case "lose":
			return r.Finish(id, "", Exit{Status: -1, SignalReason: "agent_lost"})
		case "cancel build":
			return r.CancelBuild()
		}
		return r.SkipBuild()
	})
	_, refused := errors.AsType[*core.Error](err)
	_, misfit := errors.AsType[*MoveError](err)
	switch {
	case err != nil && !refused && !misfit:
		d.t.Fatalf("%s: %v\n%s", what, err, d.list)
	case err == nil && ended && what != "retry":
		d.t.Fatalf("%s moved a build that had ended, through %v\n%s", what, d.states, d.list)
	}
	d.check(what + " " + d.steps[j.StepID].Key + " " + id)
}

// refuseToMove tries all events except retries on a build that has ended.
func (d *drive) refuseToMove() {
	state, finished := d.build.State, d.build.FinishedAt
	for _, id := range d.order {
		for _, event := range []func(*Run, string) error{
			assign, accept, starts, (*Run).Unblock, (*Run).CancelJob, (*Run).Expire,
			(*Run).TimeOut, (*Run).Schedule, (*Run).Limit, (*Run).ChildCreated, exits(0), exits(1),
		} {
			if err := d.do(func(r *Run) error { return event(r, id) }); err == nil {
				d.t.Fatalf("a job that is %s moved in a build that is %s", d.jobs[id].State, state)
			}
		}
	}
	if d.build.State != state || d.build.FinishedAt != finished {
		d.t.Fatalf("the build was %s and is %s", state, d.build.State)
	}
}
