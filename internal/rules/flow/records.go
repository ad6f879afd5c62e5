package flow

import (
	"cmp"
	"slices"

	"stackyard/internal/platform/core"
)

// records caches what a run has fetched and added, with one record for each id.
type records struct {
	steps map[string]*Step
	jobs  map[string]*Job
	// initialState is the state of each job when the run first saw it.
	initialState map[string]JobState
	// dependents maps a step to the fetched edges that depend on it, addedEdges to the new ones.
	dependents, addedEdges map[string][]Edge
	// attempts maps a step to its fetched jobs, addedJobs to the new ones.
	attempts, addedJobs map[string][]*Job

	isNew        map[string]bool // by step id
	newSteps     []*Step
	newEdges     []Edge
	resolved     []Edge
	changedSteps ordered[*Step]
	changedJobs  ordered[*Job]
}

func newRecords() records {
	return records{
		steps:        map[string]*Step{},
		jobs:         map[string]*Job{},
		initialState: map[string]JobState{},
		dependents:   map[string][]Edge{},
		addedEdges:   map[string][]Edge{},
		attempts:     map[string][]*Job{},
		addedJobs:    map[string][]*Job{},
		isNew:        map[string]bool{},
	}
}

// ordered is a set that keeps insertion order.
type ordered[T comparable] struct {
	list []T
	has  map[T]bool
}

func (o *ordered[T]) add(item T) {
	if o.has[item] {
		return
	}
	if o.has == nil {
		o.has = map[T]bool{}
	}
	o.has[item] = true
	o.list = append(o.list, item)
}

// internStep returns the run's record of a step that the store returned.
func (r *Run) internStep(s *Step) *Step {
	if known := r.steps[s.ID]; known != nil {
		return known
	}
	r.steps[s.ID] = s
	return s
}

// internJob returns the run's record of a job that the store returned.
func (r *Run) internJob(j *Job) *Job {
	if known := r.jobs[j.ID]; known != nil {
		return known
	}
	r.jobs[j.ID] = j
	r.initialState[j.ID] = j.State
	return j
}

// job returns a job and fetches its step.
func (r *Run) job(id string) (*Job, error) {
	if j := r.jobs[id]; j != nil {
		return j, nil
	}
	found, err := r.store.Jobs(id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, core.Errorf(core.NotFound, "No job found")
	}
	j := r.internJob(found[0])
	return j, r.fetchSteps(j.StepID)
}

// fetchJobsByID fetches the jobs that exist into r.jobs, and their steps into r.steps.
func (r *Run) fetchJobsByID(ids []string) error {
	found, err := r.store.Jobs(notCached(r.jobs, ids)...)
	if err != nil {
		return err
	}
	steps := make([]string, len(found))
	for i, j := range found {
		steps[i] = r.internJob(j).StepID
	}
	return r.fetchSteps(steps...)
}

// fetchSteps fetches the steps into r.steps.
func (r *Run) fetchSteps(ids ...string) error {
	ids = notCached(r.steps, ids)
	if len(ids) == 0 {
		return nil
	}
	found, err := r.store.Steps(ids...)
	for _, s := range found {
		r.internStep(s)
	}
	return err
}

// fetchDependents fetches the edges that depend on the steps, and the steps at their other end.
func (r *Run) fetchDependents(steps []*Step) error {
	var ids []string
	for _, s := range steps {
		if !r.isNew[s.ID] {
			ids = append(ids, s.ID)
		}
	}
	ids = notCached(r.dependents, ids)
	if len(ids) > 0 {
		found, err := r.store.Dependents(ids...)
		if err != nil {
			return err
		}
		for _, id := range ids {
			r.dependents[id] = nil
		}
		for _, e := range found {
			r.dependents[e.On] = append(r.dependents[e.On], e)
		}
	}
	var missing []string
	for _, s := range steps {
		for _, e := range r.edgesFrom(s) {
			if r.steps[e.Step] == nil {
				missing = append(missing, e.Step)
			}
		}
	}
	return r.fetchSteps(missing...)
}

// edgesFrom returns the edges that depend on a step.
func (r *Run) edgesFrom(s *Step) []Edge {
	stored, made := r.dependents[s.ID], r.addedEdges[s.ID]
	switch {
	case len(stored) == 0:
		return made
	case len(made) == 0:
		return stored
	}
	return slices.Concat(stored, made)
}

// fetchJobs fetches the jobs of the steps, for jobsOf.
func (r *Run) fetchJobs(steps []*Step) error {
	var ids []string
	for _, s := range steps {
		if !r.isNew[s.ID] && s.Jobs > 0 {
			ids = append(ids, s.ID)
		}
	}
	ids = notCached(r.attempts, ids)
	if len(ids) == 0 {
		return nil
	}
	found, err := r.store.JobsOf(ids...)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r.attempts[id] = nil
	}
	for _, j := range found {
		r.attempts[j.StepID] = append(r.attempts[j.StepID], r.internJob(j))
	}
	return nil
}

// jobsOf returns the newest attempts of a step's jobs whose state satisfies ok.
func (r *Run) jobsOf(s *Step, ok func(JobState) bool) []*Job {
	var jobs []*Job
	for _, j := range slices.Concat(r.attempts[s.ID], r.addedJobs[s.ID]) {
		if !j.Retried && ok(j.State) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// unfinished returns all steps of the build that have not ended, by position, with their jobs fetched.
func (r *Run) unfinished() ([]*Step, error) {
	found, err := r.store.Unfinished()
	if err != nil {
		return nil, err
	}
	return r.liveSteps(found, func(*Step) bool { return true })
}

// liveSteps returns the steps that have not ended and satisfy want, among found and the cached steps, by
// position, with their jobs fetched.
func (r *Run) liveSteps(found []*Step, want func(*Step) bool) ([]*Step, error) {
	for _, s := range found {
		r.internStep(s)
	}
	var live []*Step
	for _, s := range r.steps {
		if s.signal().outcome == "" && want(s) {
			live = append(live, s)
		}
	}
	slices.SortFunc(live, func(a, b *Step) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.ID, b.ID))
	})
	return live, r.fetchJobs(live)
}

// addStep adds a new step.
func (r *Run) addStep(s *Step) {
	r.steps[s.ID] = s
	r.isNew[s.ID] = true
	r.newSteps = append(r.newSteps, s)
	s.Phase = PhaseWaiting
}

// addJob adds a new job to a step and counts it.
func (r *Run) addJob(s *Step, j *Job) {
	j.StepID = s.ID
	j.State = Pending
	r.jobs[j.ID] = j
	r.initialState[j.ID] = ""
	r.addedJobs[s.ID] = append(r.addedJobs[s.ID], j)
	r.changedJobs.add(j)
	r.count(s, j, +1)
	r.changedSteps.add(s)
}

// notCached returns the ids that are not keys of known, sorted and without duplicates.
func notCached[V any](known map[string]V, ids []string) []string {
	var missing []string
	for _, id := range ids {
		if _, ok := known[id]; !ok {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}
