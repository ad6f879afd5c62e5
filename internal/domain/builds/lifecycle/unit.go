package lifecycle

import (
	"slices"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// A unit is one unit of work on a build: a transaction that holds the build's lock.
type unit struct {
	q     *db.Q
	now   time.Time
	build *builds.Build
	run   *flow.Run
	kept  *keptBuild
	store *unitStore
	// unchecked is set while the build comes out of memory and its version was not compared with the row.
	unchecked bool
	plan      plan.Plan
	timer     *tasks.Timer
	// insert inserts the build if the unit creates it; nil otherwise.
	insert func() error
	// settings are those of the organization; nil: not read yet.
	settings *settings.Settings
	// counted is the phase in which the pipeline counts the build.
	counted phase
	then    *followUps
	// positions and keys are those of the steps that the unit adds, by id.
	positions, keys map[string]string
	// groups are concurrency groups to admit jobs in, besides those in the changes of flow.
	groups []string
	// grace is how long agents may take to stop the jobs that the unit cancels.
	grace time.Duration
	// effects follow from changes of job states, in order.
	effects []effect
	// measure counts what happens; nil: nothing is counted.
	measure *metrics
	// noted is what the build was when events were last noted.
	noted buildevents.Outline
	// details say for people why jobs ended in this unit, by job.
	details map[string]string
	// shows get jobs and the build after the unit has written its changes, by job.
	shows map[string]func(*builds.Job, *builds.Build)
	// touched is set when the unit changes something of the build or its jobs that flow does not know.
	touched bool
	// promises are the reasons of exit statuses that jobs promise in this unit, by job.
	promises map[string]string
}

// open starts a unit of work on a build.
func (s *Service) open(q *db.Q, orgID, buildID string, then *followUps) (*unit, error) {
	b, err := builds.LockedByID(q, orgID, buildID)
	if err != nil {
		return nil, err
	}
	if b.TriggeredBy != "" {
		if b.Orphaned, err = builds.Orphaned(q, b.TriggeredBy); err != nil {
			return nil, err
		}
	}
	return s.newUnit(q, newKeptBuild(b), then), nil
}

// checkMutable returns an error if the build's pipeline is archived. People cannot start jobs of its builds
// then; running jobs continue.
func (u *unit) checkMutable() error {
	return pipelines.CheckMutable(u.q, u.build.OrganizationID, u.build.PipelineID)
}

// settingsOf returns the settings of the organization.
func (u *unit) settingsOf() (settings.Settings, error) {
	if u.settings == nil {
		set, err := settings.Of(u.q, u.build.OrganizationID)
		if err != nil {
			return set, err
		}
		u.settings = &set
	}
	return *u.settings, nil
}

func (s *Service) newUnit(q *db.Q, k *keptBuild, then *followUps) *unit {
	u := newUnit(q, k, s.clock(), then)
	u.effects, u.timer, u.measure = s.effects, s.deadlines, s.metrics
	return u
}

func newUnit(q *db.Q, k *keptBuild, now time.Time, then *followUps) *unit {
	now = now.UTC().Truncate(time.Microsecond) // as rows store it
	b := k.build
	store := &unitStore{Store: builds.FlowStore(q, b.ID), kept: k, before: map[string]flow.Job{}}
	return &unit{
		q:         q,
		now:       now,
		build:     b,
		kept:      k,
		store:     store,
		counted:   phaseOf(b),
		noted:     buildevents.OutlineOf(b),
		run:       flow.New(store, &b.Build, now, core.NewID),
		then:      then,
		positions: map[string]string{},
		keys:      map[string]string{},
		grace:     stopGrace,
	}
}

// close writes the changes of the unit and admits jobs to free slots of concurrency groups.
func (u *unit) close() error {
	changes := u.run.Changes()
	groups := slices.Sorted(slices.Values(slices.Concat(changes.Groups, u.groups)))
	if u.unchecked && len(groups) > 0 {
		return errStale // the build is locked before its concurrency groups
	}
	// Locked before any job is written: the holder of a group's lock can schedule jobs of other builds.
	for _, group := range groups {
		if err := u.q.LockName("concurrency group " + u.build.OrganizationID + " " + group); err != nil {
			return err
		}
	}
	if err := u.save(changes); err != nil {
		return err
	}
	u.q.Announce(u.build.Topics()...)
	u.then.note(u.build, changes)
	asking := limiting(changes)
	for _, group := range groups {
		if err := u.admit(group, asking); err != nil {
			return err
		}
	}
	return u.showJobs()
}
