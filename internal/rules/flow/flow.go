// Package flow decides what happens next in a build: given its steps, its jobs and an event, which jobs change
// state, which are retried, and which state the build is in. It does no I/O and reads no clock; the caller
// provides the time of an event and new ids.
//
// A [Run] is one unit of work on one build. Each event (a job finished, a person unblocked a step) is a method
// of Run. It fetches the few records that the event touches from a [Store] and changes them in place;
// [Run.Changes] lists what the caller must write. Steps and the build carry counts of their jobs, so an event
// costs the same in a build of ten jobs and of four thousand.
//
// Steps form a graph of [Edge]s. Wait and block steps, groups, depends_on and uploaded steps become edges when
// steps are added (link.go). Where many steps depend on many others, a join (a step without jobs) is placed
// between, so that there are about as many edges as steps. One rule remains (propagate.go): a step opens when
// all its dependencies have ended well enough, and stops when one ended badly.
//
// States are constants with a table of legal moves beside them (states.go, build.go). A move outside the table
// is an error, and the unit of work must be discarded.
package flow

import "time"

// A Run is one unit of work on one build. It is not safe for concurrent use. It accepts any number of events;
// only the first may add steps. After an event returns an error, do not write anything of the run unless
// [Run.Edits] shows that the event changed nothing.
type Run struct {
	store Store
	build *Build
	now   time.Time
	newID func() string

	buildBefore Build
	records
	// dirty are steps whose signal may differ from the one that their dependents have.
	dirty ordered[*Step]
	// groups are concurrency groups in which a slot may be free or a job was queued.
	groups      ordered[string]
	buildStates []BuildState
	edits       int
}

// New returns a unit of work on a build. All its events happen at now; newID returns ids for retried jobs and
// joins.
func New(store Store, build *Build, now time.Time, newID func() string) *Run {
	return &Run{store: store, build: build, buildBefore: *build, now: now, newID: newID, records: newRecords()}
}

// Changes lists what a unit of work has changed, in order of first change.
type Changes struct {
	// Build is set when the build must be updated.
	Build bool
	// BuildStates are the states that the build moved through, ending with its current state. It is empty if
	// the state did not change.
	BuildStates []BuildState
	// NewSteps must be inserted, including joins. Steps must be updated; it contains no new steps.
	NewSteps, Steps []*Step
	// NewEdges must be inserted. Resolved edges exist with the same Step and Key, and get their On.
	NewEdges, Resolved []Edge
	// Jobs must be inserted if From is empty, and updated otherwise.
	Jobs []JobChange
	// Groups are concurrency groups in which jobs may be able to start. For each, run [Admit] on the queue of
	// the whole organization.
	Groups []string
}

// A JobChange is a job and the state that it had before, empty for a new job. A new job with RetryOf takes the
// fields that flow does not know from the job that it retries.
type JobChange struct {
	Job  *Job
	From JobState
}

// Edits counts the changes to jobs so far. If an event fails and Edits is unchanged, the event changed nothing
// and the run can continue.
func (r *Run) Edits() int { return r.edits }

// Changes returns what the run has changed so far.
func (r *Run) Changes() Changes {
	c := Changes{
		Build:       *r.build != r.buildBefore,
		BuildStates: r.buildStates,
		NewSteps:    r.newSteps,
		NewEdges:    r.newEdges,
		Resolved:    r.resolved,
		Groups:      r.groups.list,
	}
	for _, s := range r.changedSteps.list {
		if !r.isNew[s.ID] {
			c.Steps = append(c.Steps, s)
		}
	}
	for _, j := range r.changedJobs.list {
		c.Jobs = append(c.Jobs, JobChange{j, r.initialState[j.ID]})
	}
	return c
}
