package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/definition"
	"stackyard/internal/rules/flow"
	"stackyard/internal/rules/plan"
)

// Longer names and messages are refused, or truncated when an agent reports them. In characters.
const (
	MaxName    = 255
	MaxMessage = 64 << 10
)

// A Creation describes a build to create.
type Creation struct {
	Organization        *identity.Organization // of the pipeline; nil: it is read
	Commit, Branch      string
	Source              builds.Source
	Creator             *identity.User // nil: no user of this installation
	MetaData            map[string]string
	IgnoreBranchFilters bool
	RebuiltFrom         string    // a build; empty: none
	TriggeredBy         string    // a trigger job of another build; empty: none
	Root                string    // the first build in the chain of triggers; empty: this one
	ScheduledAt         time.Time // requested start; zero: now
	QueuePlace          string    // of the build that waits for this one; empty: last
	Origin              string    // what the build is created for, at most one in the pipeline; empty: nothing
	builds.Details
}

// maxOrigin is the longest origin, in bytes: it is part of an index.
const maxOrigin = 512

// Create creates a build of a pipeline and starts its first jobs. Numbers have no gaps. If the pipeline has a build
// of the requested origin, or the trigger job has one, Create returns that one.
func (s *Service) Create(ctx context.Context, p *pipelines.Pipeline, c Creation) (*builds.Build, error) {
	b, _, err := s.CreateShown(ctx, p, c)
	return b, err
}

// CreateShown is Create and also returns the jobs of the new build with everything that they show, in their order. It
// returns no jobs if they must be read.
func (s *Service) CreateShown(ctx context.Context, p *pipelines.Pipeline, c Creation) (*builds.Build, []*builds.Job, error) {
	d, err := s.Draft(ctx, p, c)
	if err != nil {
		return nil, nil, err
	}
	var created builds.Build
	err = s.write(ctx, func(q *db.Q, then *followUps) error {
		d.kept, d.shown = nil, nil
		if _, err := d.write(q, then); err != nil {
			return err
		}
		created = *d.build // units of work change the one in memory
		kept := d.kept
		q.AfterCommit(func() { s.keep(kept) }) // before a job is assigned
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return &created, d.shown, nil
}

// CountsOf returns what a build adds to the counts of its pipeline.
func CountsOf(b *builds.Build) pipelines.Counts { return phaseOf(b).counts(b.Jobs) }

// maxShown bounds the jobs of a new build that are shown without reading them.
const maxShown = 50

// keep sets what is in memory of the new build after the unit of work has written it.
func (d *Draft) keep(u *unit) (err error) {
	changes := u.run.Changes()
	jobs, positions := make([]*flow.Job, len(changes.Jobs)), make(map[string]string, len(changes.Jobs))
	for i, c := range changes.Jobs {
		jobs[i] = c.Job
		if p := u.plan.Jobs[c.Job.ID]; p != nil {
			positions[c.Job.ID] = jobPosition(u.positions[c.Job.StepID], p.Index)
		}
	}
	if d.shown, err = builds.NewJobs(u.build, u.plan, changes.NewSteps, jobs, positions, maxShown); err != nil {
		return err
	}
	u.kept.add(changes, d.shown)
	d.kept = u.kept
	return nil
}

// A Draft is a build that is checked and parsed, but not created yet.
type Draft struct {
	service   *Service
	pipeline  *pipelines.Pipeline
	requested Creation
	id        string
	org       *identity.Organization
	teams     []string // of the creator
	build     *builds.Build
	kept      *keptBuild    // the build in memory after it was written
	shown     []*builds.Job // its jobs; nil: they must be read

	rebuiltFrom, triggeredFrom builds.Link

	defined *definition.Pipeline
	// early is set when the definition uses variables that are known only inside the transaction, like the
	// build's number. Then it is parsed again there.
	early bool
}

// Draft does the slow part of creating a build, outside of a transaction. [Draft.CreateTx] does the rest.
func (s *Service) Draft(ctx context.Context, p *pipelines.Pipeline, c Creation) (*Draft, error) {
	if !c.IgnoreBranchFilters && c.PullRequest == nil && !core.BranchFilter(p.BranchConfiguration).Match(c.Branch) {
		return nil, core.Errorf(core.Unprocessable, "The branch %q is not built: the pipeline builds only %q", c.Branch, p.BranchConfiguration)
	}
	if len(c.Origin) > maxOrigin {
		return nil, core.Errorf(core.Unprocessable, "The origin of a build has at most %d bytes, not %d", maxOrigin, len(c.Origin))
	}
	d := &Draft{service: s, pipeline: p, requested: c, id: core.NewID()}
	return d, d.prepare(ctx)
}

// CreateTx creates the build in the transaction of the caller, which can be retried. If the pipeline has a build of
// the same origin, it returns that one and created is false. So a task that crashed after its transaction, or that
// two replicas run, creates one build.
//
// The error Unavailable means that another transaction changed jobs of the same concurrency group: the caller tries
// again later.
func (d *Draft) CreateTx(q *db.Q) (b *builds.Build, created bool, err error) {
	then := &followUps{events: d.service.events}
	if created, err = d.write(q, then); err != nil {
		return nil, false, refused(err)
	}
	if created {
		err = then.save(q, d.service.clock())
	}
	return d.build, created, err
}

// prepare does the slow work that needs no lock: it parses the definition.
func (d *Draft) prepare(ctx context.Context) error {
	err := d.service.db.Read(ctx, func(q *db.Q) error {
		org, err := d.organization(q)
		if err != nil {
			return err
		}
		d.org = org
		if d.rebuiltFrom, err = builds.LinkTo(q, org.ID, d.requested.RebuiltFrom); err != nil {
			return err
		}
		if d.triggeredFrom, err = builds.LinkToBuildOf(q, org.ID, d.requested.TriggeredBy); err != nil {
			return err
		}
		d.teams, err = d.teamsOf(q)
		return err
	})
	if err != nil {
		return err
	}
	d.begin()
	d.findCommit(ctx)
	d.defined, err = d.read()
	return err
}

type teamsKey struct {
	org    *identity.Organization
	userID string
}

// teamsOf returns the teams of the creator.
func (d *Draft) teamsOf(q *db.Q) ([]string, error) {
	creator := d.requested.Creator
	if creator == nil {
		return nil, nil
	}
	read := func(q *db.Q) ([]string, error) { return builds.TeamsOf(q, d.org.ID, creator) }
	if d.requested.Organization == nil {
		return read(q)
	}
	return d.service.teams.Get(q, teamsKey{d.org, creator.ID}, read)
}

// organization returns the organization of the pipeline.
func (d *Draft) organization(q *db.Q) (*identity.Organization, error) {
	if org := d.requested.Organization; org != nil {
		return org, nil
	}
	return identity.OrganizationByID(q, d.pipeline.OrganizationID)
}

// begin sets build to the requested build, without a number.
func (d *Draft) begin() {
	c, now := d.requested, d.service.clock().UTC().Truncate(time.Microsecond)
	d.build = &builds.Build{
		ID:              d.id,
		OrganizationID:  d.org.ID,
		PipelineID:      d.pipeline.ID,
		ClusterID:       d.pipeline.ClusterID,
		Branch:          c.Branch,
		Commit:          c.Commit,
		Source:          c.Source,
		Creator:         c.Creator,
		TriggeredBy:     c.TriggeredBy,
		Root:            c.Root,
		RebuiltFrom:     c.RebuiltFrom,
		CreatedAt:       now,
		ScheduledAt:     c.ScheduledAt,
		QueuePlace:      cmp.Or(c.QueuePlace, core.NewID()), // created under the pipeline's lock, so in the order of numbers
		Build:           flow.Build{State: flow.BuildCreating},
		Details:         c.Details,
		RebuiltBuild:    d.rebuiltFrom,
		TriggeringBuild: d.triggeredFrom,
	}
	if c.ScheduledAt.IsZero() {
		d.build.ScheduledAt = now
	}
	d.build.Env = orEmpty(d.build.Env)
	d.build.MarkFork(d.pipeline)
}

// env returns the variables that the definition can use.
func (d *Draft) env() plan.Lookup {
	known := d.service.Variables(d.org, d.pipeline, d.build)
	return func(name string) (string, bool) {
		switch _, rest, _ := strings.Cut(name, "_"); rest {
		case "BUILD_NUMBER", "BUILD_URL", "CLUSTER_ID":
			d.early = d.early || d.build.Number == 0
		}
		return known(name)
	}
}

// read returns the definition of the pipeline's steps for this build.
func (d *Draft) read() (*definition.Pipeline, error) {
	if d.pipeline.Visual() {
		return readVisual(d.pipeline)
	}
	defined, err := plan.Parse(d.pipeline.Configuration, d.env())
	if wrong, ok := errors.AsType[definition.Errors](err); ok {
		var problems core.Problems
		for _, problem := range wrong {
			problems.Add("configuration", "%s", problem)
		}
		return nil, problems.Err()
	}
	return defined, err
}

// write creates the build in a transaction, which may be retried, unless the pipeline has one of the same origin.
func (d *Draft) write(q *db.Q, then *followUps) (created bool, err error) {
	p := d.pipeline
	if err := d.checkDescendants(q); err != nil {
		return false, err
	}
	if existing, err := d.existing(q); err != nil || existing != nil {
		d.build = existing
		return false, err
	}
	var number int
	at, err := d.site(q, func() error { return nextNumber(q, p.ID, &number) })
	if err != nil {
		return false, err
	}
	d.begin()
	b, set := d.build, at.settings
	b.ClusterID, b.Number = at.cluster.ID, number
	if d.early {
		if d.defined, err = d.read(); err != nil {
			return false, err
		}
	}
	b.PipelineEnv = orEmpty(d.defined.Env.Map())
	planner := newPlanner(b, p, set, d.defined, at.queues)
	planner.Context = b.Context(d.org, p, d.teams, d.service.Variables(d.org, p, b))
	planned, err := planner.Plan(d.defined.Steps)
	if err != nil {
		return false, err
	}
	u := d.service.newUnit(q, newKeptBuild(b), then)
	u.now, u.plan, u.counted, u.settings = b.CreatedAt, planned, phase{}, &set
	u.run = flow.New(u.store, &b.Build, u.now, core.NewID)
	u.insert = func() error {
		if err := insertBuild(q, b, d.requested.Origin); err != nil {
			return err
		}
		if err := setMetaData(q, b, d.requested.MetaData); err != nil {
			return err
		}
		return buildevents.KeepNotify(q, b, d.defined, planned)
	}
	if err := u.run.Begin(planned.Specs); err != nil {
		return false, err
	}
	if err := d.service.resolveLater(q, p, b); err != nil {
		return false, err
	}
	if p.SkipQueued.On || p.CancelRunning.On {
		then.add(supersedeOlder, b.OrganizationID, b.ID)
	}
	if err := u.close(); err != nil {
		return false, err
	}
	return true, d.keep(u)
}

// existing returns the build that was created for the same trigger job or origin, or nil. It locks the pipeline first.
func (d *Draft) existing(q *db.Q) (b *builds.Build, err error) {
	if d.requested.TriggeredBy == "" && d.requested.Origin == "" {
		return nil, nil
	}
	check, err := pipelines.LockForBuild(q, d.org.ID, d.pipeline.ID)
	if err != nil {
		return nil, err
	}
	if err := check(); err != nil {
		return nil, err
	}
	switch c := d.requested; {
	case c.TriggeredBy != "":
		b, err = builds.ChildOf(q, d.org.ID, c.TriggeredBy)
	case c.Origin != "":
		b, err = builds.ByOrigin(q, d.org.ID, d.pipeline.ID, c.Origin)
	}
	if core.KindOf(err) == core.NotFound {
		return nil, nil
	}
	return b, err
}

// newPlanner returns a planner for steps of a build. The caller sets its context.
func newPlanner(b *builds.Build, p *pipelines.Pipeline, set settings.Settings, defaults *definition.Pipeline, queues map[string]string) *plan.Planner {
	return &plan.Planner{
		Branch:          b.Branch,
		Defaults:        defaults,
		Queues:          queues,
		DefaultTimeout:  p.DefaultTimeout,
		MaximumTimeouts: []*int{p.MaximumTimeout, core.OrNull(set.MaximumTimeout)},
	}
}

// readVisual returns the steps of a visual pipeline, which are stored in the form of responses.
func readVisual(p *pipelines.Pipeline) (*definition.Pipeline, error) {
	text, err := json.Marshal(p.Steps)
	if err != nil {
		return nil, err
	}
	var steps []definition.VisualStep
	if err := json.Unmarshal(text, &steps); err != nil {
		return nil, err
	}
	defined, err := definition.FromVisual(steps)
	if err != nil {
		return nil, err
	}
	for name, value := range p.Env {
		defined.Env = append(defined.Env, definition.Variable{Name: name, Value: value})
	}
	return defined, nil
}

// clusterOf returns the cluster whose agents run a pipeline's builds: its own, or the organization's default.
func clusterOf(q *db.Q, p *pipelines.Pipeline, set settings.Settings) (clusters.Cluster, error) {
	if id := cmp.Or(p.ClusterID, set.DefaultClusterID); id != "" {
		c, err := clusters.ByID(q, p.OrganizationID, id)
		if core.KindOf(err) != core.NotFound {
			return c, err
		}
	}
	c, err := clusters.Default(q, p.OrganizationID)
	if core.KindOf(err) == core.NotFound {
		return c, core.Errorf(core.Unprocessable, "The pipeline has no cluster, and the organization has no default one; give the pipeline a cluster first")
	}
	return c, err
}
