package pipelines

import (
	"context"
	"net/http"
	"time"

	"stackyard/internal/domain/connections"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/tasks"
)

// Service manages pipelines. Each operation is one transaction.
type Service struct {
	db          *db.DB
	key         seal.Key
	public      core.PublicURL
	clock       core.Clock
	connections *connections.Service
	views       views
}

// New returns a Service. key encrypts the credentials of source hosts; client calls source hosts.
func New(d *db.DB, key seal.Key, public core.PublicURL, clock core.Clock, client *http.Client) *Service {
	return &Service{db: d, key: key, public: public, clock: clock, connections: connections.New(d, key, public, clock, client), views: newViews(d)}
}

// newPipeline returns a pipeline with default values.
func newPipeline(org *identity.Organization, by *identity.User, now time.Time) *Pipeline {
	return &Pipeline{
		ID:               core.NewID(),
		OrganizationID:   org.ID,
		Visibility:       Private,
		AllowRebuilds:    true,
		Env:              map[string]string{},
		ProviderSettings: ProviderSettings{},
		CreatedBy:        by,
		CreatedAt:        now,
		webhookKey:       seal.NewToken(""),
		badgeKey:         seal.NewToken(""),
	}
}

// create adds a pipeline.
func (s *Service) create(ctx context.Context, v Viewer, body *pipelineCreate) (*Pipeline, error) {
	var problems core.Problems
	plan := body.plan(&problems)
	if plan.givesNothing() {
		problems.Add("configuration", "is required: give the steps as YAML, or visual steps instead")
	}
	var created *Pipeline
	err := s.db.Write(ctx, func(q *db.Q) error {
		e, err := beginEdit(q, v, s.key, problems)
		if err != nil {
			return err
		}
		cluster, err := e.newCluster(body.ClusterID.Value)
		if err != nil {
			return err
		}
		template, err := e.template(body.TemplateUUID.Value)
		if err != nil {
			return err
		}
		teams, err := e.teams(body.teams())
		if err != nil {
			return err
		}
		p := newPipeline(v.Org, &v.User, s.clock())
		p.ClusterID = cluster
		if err := e.apply(p, &body.pipelineFields, plan, template); err != nil {
			return err
		}
		if p.Slug == "" && p.Name != "" {
			if p.Slug, err = e.newSlug(p); err != nil {
				return err
			}
		}
		if p.Visual() {
			p.dropYAMLOnly()
		}
		if p.Visual() || !body.DefaultTimeout.Set {
			p.DefaultTimeout = e.newTimeout(p.MaximumTimeout)
		}
		if err := e.commit(p); err != nil {
			return err
		}
		if err := grant(q, p, teams, p.CreatedAt); err != nil {
			return err
		}
		created, err = ByID(q, v, p.ID)
		return err
	})
	return created, err
}

// dropYAMLOnly resets fields that requests for visual pipelines do not have.
func (p *Pipeline) dropYAMLOnly() {
	p.Color, p.Emoji, p.AllowRebuilds, p.DefaultTimeout, p.MaximumTimeout = "", "", true, nil, nil
}

// update changes the fields of a pipeline that the request names. It keeps all others, including concurrent
// changes to them.
func (s *Service) update(ctx context.Context, v Viewer, id string, body *pipelineUpdate) (*Pipeline, error) {
	var problems core.Problems
	plan := body.plan(&problems)
	var updated *Pipeline
	err := s.db.Write(ctx, func(q *db.Q) error {
		e, err := beginEdit(q, v, s.key, problems)
		if err != nil {
			return err
		}
		var cluster string
		if body.ClusterID.Set && !body.ClusterID.Null {
			if cluster, err = e.cluster(body.ClusterID.Value); err != nil {
				return err
			}
		}
		template, err := e.template(body.TemplateUUID.Value)
		if err != nil {
			return err
		}
		p, err := lock(q, v, id)
		if err != nil {
			return err
		}
		if body.ClusterID.Set {
			p.ClusterID = cluster
		}
		if err := e.apply(p, &body.pipelineFields, plan, template); err != nil {
			return err
		}
		if err := e.commit(p); err != nil {
			return err
		}
		updated, err = ByID(q, v, id)
		return err
	})
	return updated, err
}

// archive makes a pipeline read-only and hides it from lists.
func (s *Service) archive(ctx context.Context, v Viewer, id string) (*Pipeline, error) {
	return s.change(ctx, v, id, func(p *Pipeline) error {
		if p.Archived() {
			return core.Errorf(core.Unprocessable, "The pipeline could not be archived: it is archived already")
		}
		p.ArchivedAt = s.clock()
		return nil
	})
}

// unarchive makes an archived pipeline editable and visible again.
func (s *Service) unarchive(ctx context.Context, v Viewer, id string) (*Pipeline, error) {
	return s.change(ctx, v, id, func(p *Pipeline) error {
		if !p.Archived() {
			return core.Errorf(core.Unprocessable, "The pipeline could not be unarchived: it is not archived")
		}
		p.ArchivedAt = time.Time{}
		return nil
	})
}

// change applies fn to the current state of a pipeline and saves the result.
func (s *Service) change(ctx context.Context, v Viewer, id string, fn func(p *Pipeline) error) (*Pipeline, error) {
	var changed *Pipeline
	err := s.db.Write(ctx, func(q *db.Q) error {
		p, err := lock(q, v, id)
		if err != nil {
			return err
		}
		if err := fn(p); err != nil {
			return err
		}
		changed = p
		return save(q, p)
	})
	return changed, err
}

// Removal is the kind of the task that removes the contents of a deleted pipeline. Its key is the pipeline's
// id. Package builds handles it.
const Removal = "pipeline-removal"

// Removed is the kind of the task that runs after builds of a deleted pipeline were removed. Its key is the
// organization's id. It releases builds that wait for a removed build and would otherwise wait forever.
const Removed = "pipeline-removed"

// BytesRemoval is the kind of the task that removes blobs of a pipeline or a build. Its key is their common
// prefix.
const BytesRemoval = "bytes-removal"

// removalDelay is the time between removing rows and removing their blobs, so that blobs that were being
// written at that moment are removed too.
const removalDelay = time.Minute

// RemoveBytes enqueues the removal of all blobs below a prefix.
func RemoveBytes(q *db.Q, prefix string, now time.Time) error {
	return tasks.Add(q, tasks.Task{Kind: BytesRemoval, Key: prefix, RunAt: now.Add(removalDelay)})
}

// Prefix returns the common prefix of all blob keys of a pipeline.
func Prefix(orgID, pipelineID string) string { return orgID + "/" + pipelineID }

// delete hides a pipeline at once and enqueues the removal of its contents. Its name and slug are free
// immediately.
func (s *Service) delete(ctx context.Context, p *Pipeline) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("pipelines", p.ID); err != nil {
			return err
		}
		if err := identity.NoteChange(q); err != nil { // ends streams of its builds and logs
			return err
		}
		now := s.clock()
		if err := markDeleted(q, p, now); err != nil {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: Removal, Key: p.ID, RunAt: now})
	})
}
