package builds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

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
	Commit, Branch      string
	Source              Source
	Creator             *identity.User // nil: no user of this installation
	MetaData            map[string]string
	IgnoreBranchFilters bool
	RebuiltFrom         string    // a build; empty: none
	TriggeredBy         string    // a trigger job of another build; empty: none
	Root                string    // the first build in the chain of triggers; empty: this one
	ScheduledAt         time.Time // requested start; zero: now
	QueuePlace          string    // of the build that waits for this one; empty: last
	Details
}

// Create creates a build of a pipeline and starts its first jobs. Numbers have no gaps.
func (s *Service) Create(ctx context.Context, p *pipelines.Pipeline, c Creation) (*Build, error) {
	if !c.IgnoreBranchFilters && c.PullRequest == nil && !core.BranchFilter(p.BranchConfiguration).Match(c.Branch) {
		return nil, core.Errorf(core.Unprocessable, "The branch %q is not built: the pipeline builds only %q", c.Branch, p.BranchConfiguration)
	}
	n := &newBuild{service: s, pipeline: p, requested: c, id: core.NewID()}
	if err := n.prepare(ctx); err != nil {
		return nil, err
	}
	err := s.write(ctx, n.write)
	return n.build, err
}

// A newBuild is a build that is being created.
type newBuild struct {
	service   *Service
	pipeline  *pipelines.Pipeline
	requested Creation
	id        string
	org       *identity.Organization
	teams     []string // of the creator
	build     *Build

	rebuiltFrom, triggeredFrom Link

	defined *definition.Pipeline
	// early is set when the definition uses variables that are known only inside the transaction, like the
	// build's number. Then it is parsed again there.
	early bool
}

// prepare does the slow work that needs no lock: it parses the definition.
func (n *newBuild) prepare(ctx context.Context) error {
	err := n.service.db.Read(ctx, func(q *db.Q) error {
		org, err := organization(q, n.pipeline.OrganizationID)
		if err != nil {
			return err
		}
		n.org = org
		if n.rebuiltFrom, err = linkTo(q, org.ID, n.requested.RebuiltFrom); err != nil {
			return err
		}
		if n.triggeredFrom, err = linkToBuildOf(q, org.ID, n.requested.TriggeredBy); err != nil {
			return err
		}
		n.teams, err = teamsOf(q, org.ID, n.requested.Creator)
		return err
	})
	if err != nil {
		return err
	}
	n.begin()
	n.defined, err = n.read()
	return err
}

// begin sets build to the requested build, without a number.
func (n *newBuild) begin() {
	c, now := n.requested, n.service.clock()
	n.build = &Build{
		ID:             n.id,
		OrganizationID: n.org.ID,
		PipelineID:     n.pipeline.ID,
		ClusterID:      n.pipeline.ClusterID,
		Branch:         c.Branch,
		Commit:         c.Commit,
		Source:         c.Source,
		Creator:        c.Creator,
		TriggeredBy:    c.TriggeredBy,
		Root:           c.Root,
		RebuiltFrom:    c.RebuiltFrom,
		CreatedAt:      now,
		ScheduledAt:    c.ScheduledAt,
		QueuePlace:     cmp.Or(c.QueuePlace, core.NewID()), // created under the pipeline's lock, so in the order of numbers
		Build:          flow.Build{State: flow.BuildCreating},
		Details:        c.Details,
		rebuiltFrom:    n.rebuiltFrom,
		triggeredFrom:  n.triggeredFrom,
	}
	if c.ScheduledAt.IsZero() {
		n.build.ScheduledAt = now
	}
}

// env returns the variables that the definition can use.
func (n *newBuild) env() plan.Lookup {
	known := n.service.variables(n.org, n.pipeline, n.build)
	return func(name string) (string, bool) {
		switch _, rest, _ := strings.Cut(name, "_"); rest {
		case "BUILD_NUMBER", "BUILD_URL", "CLUSTER_ID":
			n.early = n.early || n.build.Number == 0
		}
		return known(name)
	}
}

// read returns the definition of the pipeline's steps for this build.
func (n *newBuild) read() (*definition.Pipeline, error) {
	if n.pipeline.Visual() {
		return readVisual(n.pipeline)
	}
	defined, err := plan.Parse(n.pipeline.Configuration, n.env())
	if wrong, ok := errors.AsType[definition.Errors](err); ok {
		var problems core.Problems
		for _, problem := range wrong {
			problems.Add("configuration", "%s", problem)
		}
		return nil, problems.Err()
	}
	return defined, err
}

// write creates the build in a transaction, which may be retried.
func (n *newBuild) write(q *db.Q, then *followUps) error {
	p := n.pipeline
	if err := n.checkDescendants(q); err != nil {
		return err
	}
	if err := pipelines.LockForBuild(q, n.org.ID, p.ID); err != nil {
		return err
	}
	set, err := settings.Of(q, n.org.ID)
	if err != nil {
		return err
	}
	cluster, err := clusterOf(q, p, set)
	if err != nil {
		return err
	}
	queues, err := clusters.QueueIDs(q, cluster)
	if err != nil {
		return err
	}
	n.begin()
	b := n.build
	b.ClusterID = cluster.ID
	if b.Number, err = nextNumber(q, p.ID); err != nil {
		return err
	}
	if n.early {
		if n.defined, err = n.read(); err != nil {
			return err
		}
	}
	b.PipelineEnv = n.defined.Env.Map()
	planner := newPlanner(b, p, set, n.defined, queues)
	planner.Context = b.context(n.org, p, n.teams, n.service.variables(n.org, p, b))
	planned, err := planner.Plan(n.defined.Steps)
	if err != nil {
		return err
	}
	if err := insertBuild(q, b); err != nil {
		return err
	}
	if err := setMetaData(q, b, n.requested.MetaData); err != nil {
		return err
	}
	u := n.service.newUnit(q, b, b.CreatedAt, then)
	u.plan, u.counted = planned, phase{}
	if err := u.run.Begin(planned.Specs); err != nil {
		return err
	}
	if p.SkipQueued.On || p.CancelRunning.On {
		then.add(supersedeOlder, b.OrganizationID, b.ID)
	}
	return u.close()
}

// newPlanner returns a planner for steps of a build. The caller sets its context.
func newPlanner(b *Build, p *pipelines.Pipeline, set settings.Settings, defaults *definition.Pipeline, queues map[string]string) *plan.Planner {
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
