package lifecycle

import (
	"context"
	"errors"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// Agents report on a job several times, and each report needs the build, the job and its step. A process keeps them in
// memory after a transaction on the build, so that the next one reads nothing. Each transaction increases the version
// of the build, and one that worked on a build in memory is rolled back and repeated with the rows if the version
// differs: another process, or a person, changed the build meanwhile. So nothing is decided by what is in memory alone:
// a refusal and a report that changes nothing are decided again by the rows.

const (
	maxKeptBuilds = 2_000 // in a process
	maxKeptJobs   = 500   // of a build, and steps
)

// errStale means that the build in memory cannot be relied on. The unit of work is repeated with the rows.
var errStale = errors.New("the build in memory may be stale")

// A keptBuild is a build in memory with those of its jobs, steps and edges that a unit of work has read. At most one
// unit of work uses it.
type keptBuild struct {
	build      *builds.Build
	jobs       map[string]*flow.Job
	steps      map[string]*flow.Step
	dependents map[string][]flow.Edge // by the step that others depend on
	// shown are jobs of a new build with everything that they show, by id. Their states are in jobs.
	shown map[string]*builds.Job
}

func newKeptBuild(b *builds.Build) *keptBuild {
	return &keptBuild{build: b, jobs: map[string]*flow.Job{}, steps: map[string]*flow.Step{}, dependents: map[string][]flow.Edge{}}
}

// add adds what the unit of work has added that creates the build, and its jobs with what they show, if it has few.
func (k *keptBuild) add(c flow.Changes, shown []*builds.Job) {
	if len(c.Jobs) > maxKeptJobs {
		return
	}
	k.shown = make(map[string]*builds.Job, len(shown))
	for _, j := range shown {
		k.shown[j.ID] = j
	}
	for _, s := range c.NewSteps {
		k.steps[s.ID], k.dependents[s.ID] = s, nil
	}
	for _, e := range c.NewEdges {
		k.dependents[e.On] = append(k.dependents[e.On], e)
	}
	for _, change := range c.Jobs {
		k.jobs[change.Job.ID] = change.Job
	}
}

// prune forgets jobs that have ended and reports whether the build is worth keeping. Jobs in concurrency groups are not
// kept, because units of work on other builds schedule them; nor are triggered builds, which depend on another one.
func (k *keptBuild) prune() bool {
	for id, j := range k.jobs {
		if j.State.Ended() {
			delete(k.jobs, id)
			delete(k.shown, id)
		}
	}
	for _, s := range k.steps {
		if s.Concurrency != nil {
			return false
		}
	}
	return k.build.FinishedAt.IsZero() && k.build.TriggeredBy == "" && len(k.jobs) <= maxKeptJobs && len(k.steps) <= maxKeptJobs
}

// keep keeps a build after the commit of a transaction on it.
func (s *Service) keep(k *keptBuild) {
	if k == nil || !k.prune() {
		return
	}
	if newer, ok := s.kept.Take(k.build.ID); ok && newer.build.Version > k.build.Version {
		k = newer
	}
	s.kept.Add(k.build.ID, k)
}

// Recall returns which agent holds a job by what is in memory, without reading; ok is false if that is unknown. It may
// be wrong where other processes change builds, so only a caller may use it there whose next step is a unit of work on
// the job.
func (s *Service) Recall(orgID, jobID string) (h builds.Holding, ok bool) {
	buildID, ok := s.buildIDs.Get(jobOf{orgID, jobID})
	if !ok {
		return h, false
	}
	ok = false
	s.kept.Look(buildID, func(k *keptBuild) {
		if j := k.jobs[jobID]; j != nil && k.build.OrganizationID == orgID {
			h, ok = builds.Holding{JobID: jobID, BuildID: buildID, PipelineID: k.build.PipelineID, AgentID: j.AgentID, State: j.State, FinishedAt: j.FinishedAt}, true
		}
	})
	return h, ok
}

// update is change for the many updates that agents cause: it uses the build in memory, if possible.
func (s *Service) update(ctx context.Context, orgID, buildID string, fn func(u *unit) error) error {
	if k, ok := s.kept.Take(buildID); ok && k.build.OrganizationID == orgID {
		if err := s.updateKept(ctx, k, fn); !errors.Is(err, errStale) {
			return err
		}
	}
	var k *keptBuild
	err := s.write(ctx, func(q *db.Q, then *followUps) error {
		u, err := s.open(q, orgID, buildID, then)
		if err != nil {
			return err
		}
		if err := fn(u); err != nil {
			return err
		}
		k = u.kept
		return u.close()
	})
	if err == nil {
		s.keep(k)
	}
	return err
}

// updateKept runs one unit of work on a build in memory, or returns errStale.
func (s *Service) updateKept(ctx context.Context, k *keptBuild, fn func(u *unit) error) error {
	started := false
	err := s.db.Write(ctx, func(q *db.Q) error {
		if started { // the transaction is repeated, but the build in memory has changed
			return errStale
		}
		started = true
		then := &followUps{events: s.events}
		u := s.newUnit(q, k, then)
		u.unchecked = true
		err := fn(u)
		if isRefusal(err) {
			return errStale
		}
		if err != nil {
			return err
		}
		if err := u.close(); err != nil {
			return err
		}
		if u.unchecked {
			return errStale
		}
		return then.save(q, u.now)
	})
	if errors.Is(err, errMoved) {
		return errStale
	}
	if err == nil {
		s.keep(k)
	}
	return err
}

// A unitStore reads what flow needs of a build: out of memory, or else from its rows, which are kept.
type unitStore struct {
	flow.Store // of the rows
	kept       *keptBuild
	// before are the jobs as they were when the unit of work got them.
	before map[string]flow.Job
}

// job returns the job in memory in place of one that was read.
func (s *unitStore) job(read *flow.Job) *flow.Job {
	j := s.kept.jobs[read.ID]
	if j == nil {
		j = read
		s.kept.jobs[j.ID] = j
	}
	if _, known := s.before[j.ID]; !known {
		s.before[j.ID] = *j
	}
	return j
}

func (s *unitStore) allJobs(read []*flow.Job, err error) ([]*flow.Job, error) {
	for i, j := range read {
		read[i] = s.job(j)
	}
	return read, err
}

func (s *unitStore) step(read *flow.Step) *flow.Step {
	known := s.kept.steps[read.ID]
	if known == nil {
		s.kept.steps[read.ID] = read
		return read
	}
	return known
}

func (s *unitStore) allSteps(read []*flow.Step, err error) ([]*flow.Step, error) {
	for i, step := range read {
		read[i] = s.step(step)
	}
	return read, err
}

// known splits ids into what is in memory and the others.
func known[T any](kept map[string]T, ids []string) (found []T, missing []string) {
	for _, id := range ids {
		if v, ok := kept[id]; ok {
			found = append(found, v)
		} else {
			missing = append(missing, id)
		}
	}
	return found, missing
}

func (s *unitStore) Jobs(ids ...string) ([]*flow.Job, error) {
	found, missing := known(s.kept.jobs, ids)
	if len(missing) > 0 {
		read, err := s.Store.Jobs(missing...)
		if err != nil {
			return nil, err
		}
		found = append(found, read...)
	}
	return s.allJobs(found, nil)
}

func (s *unitStore) JobsOf(stepIDs ...string) ([]*flow.Job, error) {
	return s.allJobs(s.Store.JobsOf(stepIDs...))
}

func (s *unitStore) Steps(ids ...string) ([]*flow.Step, error) {
	found, missing := known(s.kept.steps, ids)
	if len(missing) == 0 {
		return found, nil
	}
	read, err := s.allSteps(s.Store.Steps(missing...))
	return append(found, read...), err
}

func (s *unitStore) StepsByKey(keys ...string) ([]*flow.Step, error) {
	return s.allSteps(s.Store.StepsByKey(keys...))
}

func (s *unitStore) Unfinished() ([]*flow.Step, error) { return s.allSteps(s.Store.Unfinished()) }

func (s *unitStore) CancelOnFailing() ([]*flow.Step, error) {
	return s.allSteps(s.Store.CancelOnFailing())
}

func (s *unitStore) Between(scope, after, before string) ([]*flow.Step, error) {
	return s.allSteps(s.Store.Between(scope, after, before))
}

func (s *unitStore) LastInGroup(group, before string) (*flow.Step, error) {
	step, err := s.Store.LastInGroup(group, before)
	if step == nil {
		return nil, err
	}
	return s.step(step), err
}

func (s *unitStore) Dependents(stepIDs ...string) ([]flow.Edge, error) {
	found, missing := known(s.kept.dependents, stepIDs)
	var edges []flow.Edge
	for _, list := range found {
		edges = append(edges, list...)
	}
	if len(missing) == 0 {
		return edges, nil
	}
	read, err := s.Store.Dependents(missing...)
	if err != nil {
		return nil, err
	}
	for _, id := range missing {
		s.kept.dependents[id] = nil
	}
	for _, e := range read {
		s.kept.dependents[e.On] = append(s.kept.dependents[e.On], e)
	}
	return append(edges, read...), nil
}
