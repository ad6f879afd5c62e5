package statuses

import (
	"cmp"
	"context"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/buildevents"
	"stackyard/internal/domain/connections"
	"stackyard/internal/domain/events"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/sourcehost"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// A key identifies a status.
type key struct{ organizationID, repository, commit, context string }

// A batch collects what follows from events: the newest status of each key.
type batch struct {
	service  *Service
	q        *db.Q
	found    map[key]*Status
	order    []key
	orgs     map[string]*identity.Organization
	pipeline map[string]*pipelines.Pipeline // nil: nothing is published
	steps    map[string]stepStatuses
}

// stepStatuses are the contexts that a step asks for. They are the same for all of its jobs.
type stepStatuses struct {
	asked []string
	step  *builds.Step
}

// process returns what saves the statuses that follow from events.
func (s *Service) process(ctx context.Context, happened []events.Event) (func(q *db.Q) error, error) {
	b := &batch{service: s, found: map[key]*Status{}, orgs: map[string]*identity.Organization{}, pipeline: map[string]*pipelines.Pipeline{}, steps: map[string]stepStatuses{}}
	for _, e := range happened {
		if b.orgs[e.OrganizationID] != nil {
			continue
		}
		org, err := s.Directory.OrganizationByID(ctx, e.OrganizationID)
		if core.KindOf(err) == core.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		b.orgs[e.OrganizationID] = org
	}
	err := s.DB.Read(ctx, func(q *db.Q) error {
		b.q = q
		for _, e := range happened {
			err := b.add(e)
			if err != nil && core.KindOf(err) != core.NotFound { // deleted
				return err
			}
		}
		return nil
	})
	return b.save, err
}

// add adds the statuses of an event.
func (b *batch) add(e events.Event) error {
	org := b.orgs[e.OrganizationID]
	if org == nil || e.BuildID == "" {
		return nil
	}
	p, err := b.published(e)
	if err != nil || p == nil {
		return err
	}
	build, err := builds.ByID(b.q, org.ID, e.BuildID)
	if err != nil || !sourcehost.IsCommit(build.Commit) {
		return err
	}
	repo, err := sourcehost.ParseRepository(p.Repository)
	if err != nil {
		return nil
	}
	status := Status{
		OrganizationID: org.ID, Repository: repo.Host + "/" + repo.Path, Commit: build.Commit,
		BuildID: build.ID, Version: e.Seq, URL: b.service.Builds.Address(org, p, build.Number).Web(),
	}
	if e.JobID != "" {
		return b.addJob(e, org, p, build, status)
	}
	asked, _, err := buildevents.CommitStatuses(b.q, b.service.Builds, org, e)
	if err != nil {
		return err
	}
	buildevents.AsOf(e.Facts, build, nil)
	status.State, status.Description = buildState(build, p)
	contexts := contextsOf(asked, buildContext(p, build))
	if p.Flag("publish_commit_status") {
		contexts = append(contexts, buildContext(p, build))
	}
	b.keep(status, contexts...)
	return nil
}

// addJob adds the statuses of an event of a job: its own, and those that its step asks for.
func (b *batch) addJob(e events.Event, org *identity.Organization, p *pipelines.Pipeline, build *builds.Build, status Status) error {
	j, err := builds.JobByID(b.q, org.ID, e.JobID)
	if err != nil || j.Type != flow.Script {
		return err
	}
	status.JobID, status.URL = j.ID, status.URL+"#"+j.ID
	of, known := b.steps[j.StepID]
	if !known {
		now := e
		now.Facts = events.Facts{} // conditions refer to the step and the build as they are, not as they were
		if of.asked, of.step, err = buildevents.CommitStatuses(b.q, b.service.Builds, org, now); err != nil {
			return err
		}
		b.steps[j.StepID] = of
	}
	if len(of.asked) > 0 {
		status.State, status.Description = stepState(build, of.step)
		b.keep(status, contextsOf(of.asked, jobContext(p, build, j))...)
	}
	buildevents.AsOf(e.Facts, build, j)
	status.State, status.Description = jobState(build, j)
	if p.Flag("publish_commit_status") && p.Flag("publish_commit_status_per_step") && status.State != "" && !j.Retried {
		b.keep(status, jobContext(p, build, j))
	}
	return nil
}

// published returns the pipeline of an event if its repository is on a connected host, else nil.
func (b *batch) published(e events.Event) (*pipelines.Pipeline, error) {
	if p, known := b.pipeline[e.PipelineID]; known {
		return p, nil
	}
	p, err := pipelines.ByID(b.q, pipelines.System(e.OrganizationID), e.PipelineID)
	if err != nil {
		return nil, err
	}
	repo, wrong := sourcehost.ParseRepository(p.Repository)
	provider := ""
	if wrong == nil {
		if provider, err = connections.ProviderOf(b.q, e.OrganizationID, repo.Host); err != nil {
			return nil, err
		}
	}
	if provider == "" {
		p = nil
	}
	b.pipeline[e.PipelineID] = p
	return p, nil
}

// maxContext bounds the context that a pipeline asks for, in characters.
const maxContext = 200

// contextsOf returns the contexts that are asked for; those without one get the usual one.
func contextsOf(asked []string, unset string) []string {
	contexts := make([]string, len(asked))
	for i, context := range asked {
		contexts[i] = cmp.Or(core.Cut(context, maxContext), unset)
	}
	return contexts
}

// keep keeps a status under contexts unless there is a newer one.
func (b *batch) keep(status Status, contexts ...string) {
	for _, context := range contexts {
		status := status
		status.Context = context
		k := key{status.OrganizationID, status.Repository, status.Commit, context}
		before, known := b.found[k]
		if !known {
			b.order = append(b.order, k)
		}
		if !known || !before.newerThan(&status) {
			b.found[k] = &status
		}
	}
}

// newerThan reports whether a status replaces another one: that of the newer build does. Ids of builds are in the order
// of their creation.
func (s *Status) newerThan(other *Status) bool {
	if s.BuildID != other.BuildID {
		return s.BuildID > other.BuildID
	}
	return s.Version > other.Version
}

// save saves the statuses and has them sent.
func (b *batch) save(q *db.Q) error {
	now := b.service.Clock()
	var send []tasks.Task
	jobContexts := map[string]int{}
	for _, k := range b.order {
		status := b.found[k]
		status.UpdatedAt = now
		if status.JobID != "" {
			full, err := tooMany(q, status, jobContexts)
			if err != nil {
				return err
			}
			if full {
				continue
			}
		}
		id, err := upsert(q, status)
		if err != nil {
			return err
		}
		if id != "" {
			send = append(send, tasks.Task{Kind: sendTask, Key: id, RunAt: now})
		}
	}
	return tasks.Add(q, send...)
}

// tooMany reports whether a build has the most statuses of jobs, and does not have this one.
func tooMany(q *db.Q, status *Status, counts map[string]int) (bool, error) {
	known, err := exists(q, status)
	if err != nil || known {
		return false, err
	}
	if _, counted := counts[status.BuildID]; !counted {
		if counts[status.BuildID], err = countJobStatuses(q, status.OrganizationID, status.BuildID); err != nil {
			return false, err
		}
	}
	counts[status.BuildID]++
	return counts[status.BuildID] > maxJobContexts, nil
}
