package flow

import (
	"fmt"
	"slices"
	"testing"

	"stackyard/internal/rules/definition"
)

// A scenario is a build in a test. Jobs are named by the key of their step, followed by a slash and the index
// if there are several.
type scenario struct {
	*memory
	t testing.TB
}

// begin creates a build of steps.
func begin(t testing.TB, specs ...Spec) *scenario {
	t.Helper()
	s := &scenario{newMemory(), t}
	s.must(s.do(func(r *Run) error { return r.Begin(specs) }))
	return s
}

func (s *scenario) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// job returns the newest attempt of a job.
func (s *scenario) job(key string) *Job {
	s.t.Helper()
	index := 0
	if i := slices.Index([]byte(key), '/'); i >= 0 {
		fmt.Sscan(key[i+1:], &index)
		key = key[:i]
	}
	for _, step := range s.steps {
		if step.Key != key || step.Replaced {
			continue
		}
		// A retried job keeps its index.
		var newest []*Job
		for _, id := range s.byStep[step.ID] {
			j := s.jobs[id]
			if j.RetryOf == "" {
				for j.Retried {
					j = s.jobs[j.RetriedIn]
				}
				newest = append(newest, j)
			}
		}
		return newest[index]
	}
	s.t.Fatalf("there is no step %q", key)
	return nil
}

// state returns the state of a job as the API shows it.
func (s *scenario) state(key string) JobState { s.t.Helper(); return s.job(key).APIState() }

// try runs an event on a job.
func (s *scenario) try(key string, event func(*Run, string) error) error {
	s.t.Helper()
	id := s.job(key).ID
	return s.do(func(r *Run) error { return event(r, id) })
}

// on runs an event on a job and requires success.
func (s *scenario) on(key string, event func(*Run, string) error) {
	s.t.Helper()
	if err := s.try(key, event); err != nil {
		s.t.Fatalf("%s: %v", key, err)
	}
}

// start takes a scheduled job to running.
func (s *scenario) start(keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		s.on(key, assign)
		s.on(key, accept)
		s.on(key, starts)
	}
}

// finish ends a job with an exit status, after starting it if necessary.
func (s *scenario) finish(key string, status int) {
	s.t.Helper()
	if s.job(key).State == Scheduled {
		s.start(key)
	}
	s.on(key, exits(status))
}

func exits(status int) func(*Run, string) error {
	return func(r *Run, id string) error { return r.Finish(id, "", Exit{Status: status}) }
}

// Events of a job where the reporting agent does not matter.
func assign(r *Run, id string) error    { return r.Assign(id, "agent") }
func accept(r *Run, id string) error    { return r.Accept(id, "") }
func starts(r *Run, id string) error    { return r.Start(id, "") }
func returnJob(r *Run, id string) error { return r.Return(id, "") }

func retry(r *Run, id string) error {
	_, err := r.Retry(id)
	return err
}

func (s *scenario) wants(key string, state JobState) {
	s.t.Helper()
	if got := s.state(key); got != state {
		s.t.Errorf("%s is %s, want %s", key, got, state)
	}
}

func (s *scenario) wantsBuild(state BuildState) {
	s.t.Helper()
	if s.build.State != state {
		s.t.Errorf("the build is %s, want %s (tally %+v)", s.build.State, state, s.build.Counts)
	}
}

// Builders of steps.

var testID int

func newTestID() string {
	testID++
	return fmt.Sprintf("test-%06d", testID)
}

func step(kind definition.Kind, key string, jobType JobType, jobs int, with ...func(*Spec)) Spec {
	spec := Spec{Step: &Step{ID: newTestID(), Key: key, Kind: kind}}
	spec.Step.Retry.Manual.Allowed = true
	for range jobs {
		spec.Jobs = append(spec.Jobs, &Job{ID: newTestID(), Type: jobType})
	}
	for _, set := range with {
		set(&spec)
	}
	return spec
}

func command(key string, with ...func(*Spec)) Spec {
	return step(definition.KindCommand, key, Script, 1, with...)
}

func wait(key string, with ...func(*Spec)) Spec {
	return step(definition.KindWait, key, Waiter, 1, with...)
}

func block(key string, with ...func(*Spec)) Spec {
	return step(definition.KindBlock, key, Manual, 1, with...)
}

func input(key string, with ...func(*Spec)) Spec {
	return step(definition.KindInput, key, Manual, 1, with...)
}

func trigger(key string, with ...func(*Spec)) Spec {
	return step(definition.KindTrigger, key, Trigger, 1, with...)
}

func group(key string, members []Spec, with ...func(*Spec)) Spec {
	spec := step(definition.KindGroup, key, "", 0, with...)
	spec.Members = members
	return spec
}

func steps(specs ...Spec) []Spec { return specs }

func parallel(n int) func(*Spec) {
	return func(s *Spec) {
		for len(s.Jobs) < n {
			s.Jobs = append(s.Jobs, &Job{ID: newTestID(), Type: s.Jobs[0].Type})
		}
	}
}

func dependsOn(keys ...string) func(*Spec) {
	return func(s *Spec) {
		if s.DependsOn == nil {
			s.DependsOn = []definition.Dependency{}
		}
		for _, key := range keys {
			s.DependsOn = append(s.DependsOn, definition.Dependency{Step: key})
		}
	}
}

func dependsOnFailing(key string) func(*Spec) {
	return func(s *Spec) {
		s.DependsOn = append(s.DependsOn, definition.Dependency{Step: key, AllowFailure: true})
	}
}

func allowDependencyFailure(s *Spec) { s.Step.AllowDependencyFailure = true }
func continueOnFailure(s *Spec)      { s.Step.ContinueOnFailure = true }
func cancelOnBuildFailing(s *Spec)   { s.Step.CancelOnBuildFailing = true }
func async(s *Spec)                  { s.Step.Async = true }

func broken(reason string) func(*Spec) {
	return func(s *Spec) {
		for _, j := range s.Jobs {
			j.BrokenReason = reason
		}
	}
}

func softFail(codes ...int) func(*Spec) {
	return func(s *Spec) {
		for _, j := range s.Jobs {
			j.SoftFail = definition.SoftFail{Always: len(codes) == 0, ExitStatus: definition.ExitStatus{Codes: codes}}
		}
	}
}

func rules(rules ...definition.RetryRule) func(*Spec) {
	return func(s *Spec) { s.Step.Retry.Automatic = rules }
}

func limit(concurrencyGroup string, n int) func(*Spec) {
	return func(s *Spec) {
		s.Step.Concurrency = &definition.Concurrency{Group: concurrencyGroup, Limit: n, Method: definition.Ordered}
	}
}

func blockedState(state definition.BlockedState) func(*Spec) {
	return func(s *Spec) { s.Step.BlockedState = state }
}
