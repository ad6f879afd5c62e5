package flow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"stackyard/internal/definition"
)

// A memory keeps one build. It gives out copies and takes back only what a run says has changed, so
// that a change which is not told is lost, as it would be in a database.
type memory struct {
	build      Build
	steps      map[string]*Step
	jobs       map[string]*Job
	order      []string            // jobs, as added
	byStep     map[string][]string // jobs
	dependents map[string][]Edge
	missing    []Edge
	members    map[string][]string // steps by concurrency group
	flagged    []string            // steps with CancelOnBuildFailing

	now    time.Time
	ids    int
	events int
	// fetched counts the records given out.
	fetched int
	// states are all that the build has moved through.
	states []BuildState
}

func newMemory() *memory {
	return &memory{
		build:      Build{State: BuildCreating},
		steps:      map[string]*Step{},
		jobs:       map[string]*Job{},
		byStep:     map[string][]string{},
		dependents: map[string][]Edge{},
		members:    map[string][]string{},
		now:        time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func (m *memory) newID() string {
	m.ids++
	return fmt.Sprintf("id-%06d", m.ids)
}

// do runs an event and, unless it fails, keeps what it changed; then it lets concurrency groups admit
// whom they can.
func (m *memory) do(event func(*Run) error) error {
	m.events++
	m.now = m.now.Add(time.Second)
	build := m.build
	r := New(m, &build, m.now, m.newID)
	if err := event(r); err != nil {
		return err
	}
	for {
		asked := r.groups.list
		r.groups = ordered[string]{}
		if len(asked) == 0 {
			break
		}
		for _, group := range asked {
			if err := m.admit(r, group); err != nil {
				return err
			}
		}
	}
	m.keep(build, r.Changes())
	return nil
}

// admit lets a concurrency group admit whom it can. The build is the only one there is.
func (m *memory) admit(r *Run, group string) error {
	type entry struct {
		Queued
		position string
		job      *Job
	}
	var queue []entry
	holders := 0
	for _, id := range m.stepsIn(r, group) {
		if err := r.fetchSteps(id); err != nil {
			return err
		}
		s := r.steps[id]
		if err := r.fetchJobs([]*Step{s}); err != nil {
			return err
		}
		for _, j := range r.jobsOf(s, func(JobState) bool { return true }) {
			if j.State.HoldsSlot() {
				holders++
			}
			if j.Queued {
				queue = append(queue, entry{Queued{j.ID, j.State == Waiting, s.Concurrency.Limit, s.Concurrency.Method, 0}, s.Position, j})
			}
		}
	}
	slices.SortStableFunc(queue, func(a, b entry) int {
		if a.Waiting != b.Waiting {
			if a.Waiting {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.position, b.position)
	})
	var members []Queued
	for _, e := range queue {
		members = append(members, e.Queued)
	}
	admitted := Admit(holders, members)
	for _, id := range admitted {
		if err := r.Schedule(id); err != nil {
			return err
		}
	}
	for _, e := range queue {
		if e.job.State == Limiting {
			if err := r.Limit(e.job.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) stepsIn(r *Run, group string) []string {
	ids := slices.Clone(m.members[group])
	for _, s := range r.newSteps {
		if s.Concurrency != nil && s.Concurrency.Group == group {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func (m *memory) keep(build Build, c Changes) {
	if build != m.build && !c.Build {
		panic("the build changed and nobody was told")
	}
	m.build = build
	m.states = append(m.states, c.BuildStates...)
	for _, s := range c.NewSteps {
		if m.steps[s.ID] != nil {
			panic("a step was added twice")
		}
		if s.Concurrency != nil {
			m.members[s.Concurrency.Group] = append(m.members[s.Concurrency.Group], s.ID)
		}
		if s.CancelOnBuildFailing {
			m.flagged = append(m.flagged, s.ID)
		}
	}
	for _, s := range slices.Concat(c.NewSteps, c.Steps) {
		copied := *s
		m.steps[s.ID] = &copied
	}
	for _, e := range c.NewEdges {
		if e.On == "" {
			m.missing = append(m.missing, e)
		} else {
			m.dependents[e.On] = append(m.dependents[e.On], e)
		}
	}
	for _, e := range c.Resolved {
		m.missing = slices.DeleteFunc(m.missing, func(o Edge) bool { return o.Step == e.Step && o.Key == e.Key })
		m.dependents[e.On] = append(m.dependents[e.On], e)
	}
	for _, change := range c.Jobs {
		j := change.Job
		if known := m.jobs[j.ID]; known == nil {
			m.order = append(m.order, j.ID)
			m.byStep[j.StepID] = append(m.byStep[j.StepID], j.ID)
		} else if known.State != change.From {
			panic("a job's state before is told wrongly")
		}
		copied := *j
		m.jobs[j.ID] = &copied
	}
}

func (m *memory) Jobs(ids ...string) (found []*Job, err error) {
	for _, id := range ids {
		if j := m.jobs[id]; j != nil {
			copied := *j
			found = append(found, &copied)
		}
	}
	m.fetched += len(found)
	return found, nil
}

func (m *memory) JobsOf(stepIDs ...string) (found []*Job, err error) {
	for _, id := range stepIDs {
		for _, jobID := range m.byStep[id] {
			if j := m.jobs[jobID]; !j.Retried {
				copied := *j
				found = append(found, &copied)
			}
		}
	}
	m.fetched += len(found)
	return found, nil
}

func (m *memory) Steps(ids ...string) (found []*Step, err error) {
	for _, id := range ids {
		copied := *m.steps[id]
		found = append(found, &copied)
	}
	m.fetched += len(found)
	return found, nil
}

// where returns the steps that are as asked, in order of position.
func (m *memory) where(want func(*Step) bool) (found []*Step, err error) {
	for _, s := range m.steps {
		if want(s) {
			copied := *s
			found = append(found, &copied)
		}
	}
	slices.SortFunc(found, func(a, b *Step) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID))
	})
	m.fetched += len(found)
	return found, nil
}

func (m *memory) StepsByKey(keys ...string) ([]*Step, error) {
	return m.where(func(s *Step) bool { return s.Key != "" && !s.Replaced && slices.Contains(keys, s.Key) })
}

func (m *memory) Dependents(stepIDs ...string) (found []Edge, err error) {
	for _, id := range stepIDs {
		found = append(found, m.dependents[id]...)
	}
	m.fetched += len(found)
	return found, nil
}

func (m *memory) Missing(keys ...string) (found []Edge, err error) {
	for _, e := range m.missing {
		if slices.Contains(keys, e.Key) {
			found = append(found, e)
		}
	}
	return found, nil
}

func (m *memory) Unfinished() ([]*Step, error) {
	return m.where(func(s *Step) bool { return s.Outcome == "" })
}

func (m *memory) CancelOnFailing() (found []*Step, err error) {
	for _, id := range m.flagged {
		if s := *m.steps[id]; s.Outcome == "" {
			found = append(found, &s)
		}
	}
	return found, nil
}

func (m *memory) Between(scope, after, before string) ([]*Step, error) {
	return m.where(func(s *Step) bool {
		return !hidden(s) && s.Scope == scope && s.Position > after && s.Position < before
	})
}

func (m *memory) LastInGroup(group, before string) (*Step, error) {
	found, err := m.where(func(s *Step) bool {
		return s.Concurrency != nil && s.Concurrency.Group == group && s.Position < before
	})
	if len(found) == 0 {
		return nil, err
	}
	return found[len(found)-1], nil
}

func hidden(s *Step) bool { return s.Kind == KindJoin || s.Kind == KindQueue }

// visible returns the steps that people see, in order.
func (m *memory) visible() []*Step {
	steps := slices.DeleteFunc(slices.Collect(maps.Values(m.steps)), hidden)
	slices.SortFunc(steps, func(a, b *Step) int { return cmp.Compare(a.Position, b.Position) })
	return steps
}

// newest returns the newest attempts of a step's jobs.
func (m *memory) newest(stepID string) (jobs []*Job) {
	for _, id := range m.byStep[stepID] {
		if !m.jobs[id].Retried {
			jobs = append(jobs, m.jobs[id])
		}
	}
	return jobs
}

// A scenario is a build in a test. Jobs are spoken of by the key of their step, with the index behind
// a slash where there are several.
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

// job returns the newest attempt of a step's only job, or of one of them.
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
		// A retried job comes back at its own place.
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

// state returns the state of a job in the words of the API.
func (s *scenario) state(key string) JobState { s.t.Helper(); return s.job(key).APIState() }

// try runs an event on a job.
func (s *scenario) try(key string, event func(*Run, string) error) error {
	s.t.Helper()
	id := s.job(key).ID
	return s.do(func(r *Run) error { return event(r, id) })
}

// on runs an event on a job that must succeed.
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
		s.on(key, (*Run).Assign)
		s.on(key, (*Run).Accept)
		s.on(key, (*Run).Start)
	}
}

// finish ends a job with an exit status, after starting it if need be.
func (s *scenario) finish(key string, status int) {
	s.t.Helper()
	if s.job(key).State == Scheduled {
		s.start(key)
	}
	s.on(key, exits(status))
}

func exits(status int) func(*Run, string) error {
	return func(r *Run, id string) error { return r.Finish(id, Exit{Status: status}) }
}

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
		s.t.Errorf("the build is %s, want %s (tally %+v)", s.build.State, state, s.build.Tally)
	}
}

// The builders of steps.

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
