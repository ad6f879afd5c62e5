package builds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"stackyard/internal/clusters"
	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/definition"
	"stackyard/internal/flow"
	"stackyard/internal/identity"
	"stackyard/internal/pipelines"
	"stackyard/internal/settings"
)

// A Creation is what a new build is asked to be.
type Creation struct {
	Commit, Branch      string
	Source              Source
	Creator             *identity.User // nil: nobody here
	MetaData            map[string]string
	IgnoreBranchFilters bool
	RebuiltFrom         string    // a build; empty: none
	TriggeredBy         string    // a trigger job of another build; empty: none
	ScheduledAt         time.Time // when it is meant to run; zero: now
	Details
}

// Create makes a build of a pipeline as it was loaded, and lets its first jobs go. Numbers follow one
// another without gaps.
func (s *Service) Create(ctx context.Context, p *pipelines.Pipeline, c Creation) (*Build, error) {
	if !c.IgnoreBranchFilters && c.PullRequest == nil && !core.BranchFilter(p.BranchConfiguration).Match(c.Branch) {
		return nil, core.Errorf(core.Unprocessable, "The branch %q is not built: the pipeline builds only %q", c.Branch, p.BranchConfiguration)
	}
	defined, err := read(p)
	if err != nil {
		return nil, err
	}
	var build *Build
	err = s.write(ctx, func(q *db.Q, then *followUps) error {
		build, err = s.create(q, then, p, defined, c)
		return err
	})
	return build, err
}

// create makes a build within a transaction.
func (s *Service) create(q *db.Q, then *followUps, p *pipelines.Pipeline, defined *definition.Pipeline, c Creation) (*Build, error) {
	if err := pipelines.LockForBuild(q, p.OrganizationID, p.ID); err != nil {
		return nil, err
	}
	set, err := settings.Of(q, p.OrganizationID)
	if err != nil {
		return nil, err
	}
	cluster, err := clusterOf(q, p, set)
	if err != nil {
		return nil, err
	}
	queues, err := clusters.QueueIDs(q, cluster)
	if err != nil {
		return nil, err
	}
	now := s.clock()
	b := &Build{
		ID:             core.NewID(),
		OrganizationID: p.OrganizationID,
		PipelineID:     p.ID,
		ClusterID:      cluster.ID,
		Branch:         c.Branch,
		Commit:         c.Commit,
		Source:         c.Source,
		Creator:        c.Creator,
		TriggeredBy:    c.TriggeredBy,
		RebuiltFrom:    c.RebuiltFrom,
		CreatedAt:      now,
		ScheduledAt:    c.ScheduledAt,
		Build:          flow.Build{State: flow.BuildCreating},
		Details:        c.Details,
	}
	if b.ScheduledAt.IsZero() {
		b.ScheduledAt = now
	}
	b.PipelineEnv = defined.Env.Map()
	if b.Number, err = nextNumber(q, p.ID); err != nil {
		return nil, err
	}
	drawn, err := (&planner{build: b, pipeline: p, settings: set, defaults: defined, queues: queues}).draw(defined.Steps)
	if err != nil {
		return nil, err
	}
	if err := insertBuild(q, b); err != nil {
		return nil, err
	}
	if err := setMetaData(q, b.ID, c.MetaData); err != nil {
		return nil, err
	}
	u := newUnit(q, b, now, then)
	u.plan = drawn
	if err := u.run.Begin(drawn.specs); err != nil {
		return nil, err
	}
	if p.SkipQueued.On || p.CancelRunning.On {
		then.supersede = append(then.supersede, superseding{build: b, skip: p.SkipQueued, cancel: p.CancelRunning})
	}
	return b, u.close()
}

// read returns a pipeline's steps.
func read(p *pipelines.Pipeline) (*definition.Pipeline, error) {
	if p.Visual() {
		return readVisual(p)
	}
	defined, err := definition.Parse([]byte(p.Configuration))
	if wrong, ok := errors.AsType[definition.Errors](err); ok {
		lines := make([]string, len(wrong))
		for i, problem := range wrong {
			lines[i] = fmt.Sprint(problem)
		}
		return nil, core.Errorf(core.Unprocessable, "The pipeline's configuration cannot be built: %s", strings.Join(lines, "; "))
	}
	return defined, err
}

// readVisual returns the steps of a visual pipeline, which are kept in the form that responses have.
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

// clusterOf returns the cluster whose agents run a pipeline's build: its own, or what the organization
// gives to pipelines without one.
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
