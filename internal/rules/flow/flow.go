// Package flow decides what happens next in a build: given its steps, its jobs and what just
// happened, which jobs move to which state, which are retried, and what state the build is in.
//
// Three ideas carry it.
//
// A [Run] is one unit of work on one build. An event (a job finished, a person unblocked) is a
// method of Run. It fetches the few records that the event touches from a [Store], changes them in
// place, and tells afterwards with [Run.Changes] what has to be written. Every question about many
// jobs is answered by counts that steps and the build carry along, so that an event costs the same
// in a build of ten jobs and of four thousand.
//
// Steps form a graph of [Edge]s, and all waiting is done by it: wait and block steps, groups,
// depends_on and uploaded steps are turned into edges once, when steps are added (link.go). Where
// many steps depend on many others a join stands between, a step without jobs, so that there are
// about as many edges as steps. After that one rule is left (settle.go): a step opens when all it
// depends on has ended well enough, and is stopped when that ended badly.
//
// States are words with a table of legal moves beside them (states.go, build.go). A move outside
// the table is an error, and the unit of work must be thrown away.
//
// Nothing here does I/O or looks at a clock: the time of an event, and new ids, are given.
package flow

import "time"

// A Run is one unit of work on one build. It is not safe for concurrent use. It takes any number of
// events, of which only the first may add steps. After an event returns an error nothing of the run
// may be written, unless [Run.Edits] says that it has changed nothing.
type Run struct {
	store Store
	build *Build
	now   time.Time
	newID func() string

	buildBefore Build
	records
	// dirty are steps whose signal may have changed since their dependents were told.
	dirty ordered[*Step]
	// groups are concurrency groups in which a place may have become free or been asked for.
	groups      ordered[string]
	buildStates []BuildState
	edits       int
}

// New returns a unit of work on a build. All that happens in it happens at now; newID makes the ids
// of retried jobs and of joins.
func New(store Store, build *Build, now time.Time, newID func() string) *Run {
	return &Run{store: store, build: build, buildBefore: *build, now: now, newID: newID, records: newRecords()}
}

// Changes is what a unit of work has changed and what must follow. Order is that of first change.
type Changes struct {
	// Build is set when the build must be updated.
	Build bool
	// BuildStates are the states that the build moved through, the last being its state now; none
	// when its state is as before.
	BuildStates []BuildState
	// NewSteps are to be inserted, joins included; Steps, and not the new ones, to be updated.
	NewSteps, Steps []*Step
	// NewEdges are to be inserted. Resolved ones exist, by Step and Key, and get their On.
	NewEdges, Resolved []Edge
	// Jobs are to be inserted, where From is empty, or updated.
	Jobs []JobChange
	// Groups are concurrency groups in which jobs may have become free to start: for each, look at
	// the whole organization's queue with [Admit].
	Groups []string
}

// A JobChange is a job as it is now and the state that it had before, empty for a new job. A new job
// with RetryOf takes everything that flow does not know of from the job it retries.
type JobChange struct {
	Job  *Job
	From JobState
}

// Edits counts the changes to jobs so far. An event that was refused without adding to it has changed nothing,
// and the run can go on.
func (r *Run) Edits() int { return r.edits }

// Changes tells what the run has changed so far.
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
