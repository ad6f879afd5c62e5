package flow

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A memory stores one build of an organization. It returns copies and stores only what a run lists as changed,
// so that an unlisted change is lost, as in a database.
type memory struct {
	org        *organization
	place      string // in the queues of concurrency groups
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
	events int
	// fetched counts the returned records.
	fetched int
	// states are all states that the build moved through.
	states []BuildState
}

// newMemory returns a new build, the only one of its organization.
func newMemory() *memory { return new(organization).newBuild("") }

func (m *memory) newID() string { return m.org.newID() }

// do runs an event and stores its changes unless it fails; then it runs admission for the affected concurrency
// groups.
func (m *memory) do(event func(*Run) error) error {
	m.events++
	m.now = m.now.Add(time.Second)
	changes, err := m.run(event)
	if err != nil {
		return err
	}
	for _, group := range changes.Groups {
		if err := m.org.admit(group); err != nil {
			return err
		}
	}
	return nil
}

// run runs an event and stores its changes unless it fails.
func (m *memory) run(event func(*Run) error) (Changes, error) {
	build := m.build
	r := New(m, &build, m.now, m.newID)
	if err := event(r); err != nil {
		return Changes{}, err
	}
	m.keep(build, r.Changes())
	return r.Changes(), nil
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
			panic("the previous state of a job is wrong")
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

// where returns the steps that satisfy want, by position.
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

// visible returns the steps that users see, in order.
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
