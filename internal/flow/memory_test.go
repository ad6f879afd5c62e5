package flow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
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
