package pipelines

import (
	"context"
	"net/http"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/tasks"
)

// Service is what can be done to pipelines, each in one transaction.
type Service struct {
	db     *db.DB
	key    seal.Key
	public core.PublicURL
	clock  core.Clock
	client *http.Client
}

// New returns the service of the pipelines in a database. The credentials of source hosts are sealed
// under the key, and source hosts are called with the client.
func New(d *db.DB, key seal.Key, public core.PublicURL, clock core.Clock, client *http.Client) *Service {
	return &Service{db: d, key: key, public: public, clock: clock, client: client}
}

// newPipeline returns a pipeline of which nothing has been said yet.
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

// create adds the pipeline that a request describes.
func (s *Service) create(ctx context.Context, v Viewer, body *pipelineCreate) (*Pipeline, error) {
	var wrong core.Problems
	plan := body.plan(&wrong)
	if plan.givesNothing() {
		wrong.Add("configuration", "is required: give the steps as YAML, or visual steps instead")
	}
	var created *Pipeline
	err := s.db.Write(ctx, func(q *db.Q) error {
		e, err := beginEdit(q, v, s.key, wrong)
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

// dropYAMLOnly takes back what a request for a visual pipeline does not have.
func (p *Pipeline) dropYAMLOnly() {
	p.Color, p.Emoji, p.AllowRebuilds, p.DefaultTimeout, p.MaximumTimeout = "", "", true, nil, nil
}

// update changes a pipeline as a request says. What the request does not name stays as it is, also
// when somebody else changed it a moment ago.
func (s *Service) update(ctx context.Context, v Viewer, id string, body *pipelineUpdate) (*Pipeline, error) {
	var wrong core.Problems
	plan := body.plan(&wrong)
	var updated *Pipeline
	err := s.db.Write(ctx, func(q *db.Q) error {
		e, err := beginEdit(q, v, s.key, wrong)
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

// change lets fn alter a pipeline as it is now, and saves it.
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

// Removal is the kind of the task that removes what belongs to a deleted pipeline, whose id is the key.
// Package builds handles it.
const Removal = "pipeline-removal"

// Removed is the kind of the task that follows on the removal of builds of a deleted pipeline, whose key is
// the organization's id: what has waited for such a build would wait for ever.
const Removed = "pipeline-removed"

// BytesRemoval is the kind of the task that removes what a pipeline or a build has had in the place for
// blobs. The key of the task is the prefix of all that.
const BytesRemoval = "bytes-removal"

// removalDelay is how much later bytes go than the rows that led to them, so that what was being
// written at that moment goes too.
const removalDelay = time.Minute

// RemoveBytes has everything removed that is kept in the place for blobs below a prefix.
func RemoveBytes(q *db.Q, prefix string, now time.Time) error {
	return tasks.Add(q, tasks.Task{Kind: BytesRemoval, Key: prefix, RunAt: now.Add(removalDelay)})
}

// Prefix is what the keys of all blobs of a pipeline begin with.
func Prefix(orgID, pipelineID string) string { return orgID + "/" + pipelineID }

// delete hides a pipeline from everyone at once, and has what belongs to it removed in the background.
// Another pipeline can have its name and slug right away.
func (s *Service) delete(ctx context.Context, p *Pipeline) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := q.Lock("pipelines", p.ID); err != nil {
			return err
		}
		if err := identity.NoteChange(q); err != nil { // whoever follows its builds and logs
			return err
		}
		now := s.clock()
		if err := markDeleted(q, p, now); err != nil {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: Removal, Key: p.ID, RunAt: now})
	})
}
