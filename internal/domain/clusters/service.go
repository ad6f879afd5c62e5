package clusters

import (
	"context"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/tasks"
)

// Service is what can be done to clusters, each in one transaction.
type Service struct {
	db     *db.DB
	dir    *identity.Directory
	key    seal.Key
	public core.PublicURL
	clock  core.Clock
}

// New returns the service of the clusters in a database. Secrets are sealed under the key.
func New(d *db.DB, dir *identity.Directory, key seal.Key, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, dir: dir, key: key, public: public, clock: clock}
}

// load returns the cluster that the path names.
func (s *Service) load(r *route.Request) (c maintained, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		c, err = named(q, r)
		return err
	})
	return c, err
}

// Guard returns the cluster that the path names, and what decides who may change it or anything in it.
func (s *Service) Guard(r *route.Request) (Cluster, route.Guarded, error) {
	c, err := s.load(r)
	return c.Cluster, c, err
}

func named(q *db.Q, r *route.Request) (maintained, error) {
	id, err := r.PathID("cluster", noCluster)
	if err != nil {
		return maintained{}, err
	}
	return maintainedByID(q, r.Org.ID, id)
}

// inside returns what loads something in the cluster that the path names, by its own path segment.
func inside[T any](s *Service, segment, notFound string, find func(q *db.Q, clusterID, id string) (T, error)) func(*route.Request) (part[T], error) {
	return func(r *route.Request) (p part[T], err error) {
		err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
			if p.maintained, err = named(q, r); err != nil {
				return err
			}
			id, err := r.PathID(segment, notFound)
			if err != nil {
				return err
			}
			p.it, err = find(q, p.ID, id)
			return err
		})
		return p, err
	}
}

// create adds a cluster with its first maintainers. Its name must be free.
func (s *Service) create(ctx context.Context, c Cluster, nominees []nominee) (maintained, error) {
	var result maintained
	err := s.db.Write(ctx, func(q *db.Q) error {
		if err := insertCluster(q, c); err != nil {
			return err
		}
		for i, n := range nominees {
			if _, err := appoint(q, c, n, nomineeField(i), c.CreatedAt); err != nil {
				return err
			}
		}
		var err error
		result, err = maintainedByID(q, c.OrganizationID, c.ID)
		return err
	})
	return result, taken(err, "name")
}

// taken turns a collision with what exists into a sentence about the field that must be unique; ids
// and tokens never collide.
func taken(err error, field string) error {
	if !db.IsUnique(err) {
		return err
	}
	var problems core.Problems
	problems.Add(field, "has already been taken")
	return problems.Err()
}

// change changes a cluster. Nobody else changes it, or what is in it, meanwhile.
func (s *Service) change(ctx context.Context, c Cluster, change func(q *db.Q, c *Cluster) error) (maintained, error) {
	var result maintained
	err := s.dir.Change(ctx, func(q *db.Q) error {
		c, err := Lock(q, c.OrganizationID, c.ID)
		if err != nil {
			return err
		}
		if err := change(q, &c); err != nil {
			return err
		}
		if err := updateCluster(q, c); err != nil {
			return err
		}
		result, err = maintainedByID(q, c.OrganizationID, c.ID)
		return err
	})
	return result, taken(err, "name")
}

// Removal is the kind of the task that removes what belongs to a deleted cluster, whose id is the key.
// Package agents handles it.
const Removal = "cluster-removal"

// delete hides a cluster with its queues, tokens, secrets, maintainers and agents at once, and has them
// removed in the background, unless pipelines use it.
func (s *Service) delete(ctx context.Context, c Cluster) error {
	return s.dir.Change(ctx, func(q *db.Q) error {
		if _, err := Lock(q, c.OrganizationID, c.ID); err != nil {
			return err
		}
		n, err := countPipelines(q, c.ID)
		if err != nil {
			return err
		}
		if n > 0 {
			return core.Errorf(core.Unprocessable, "The cluster cannot be deleted while pipelines use it (%d); move them to another cluster first", n)
		}
		q.Announce(QueueRemoved)
		now := s.clock()
		if err := markDeleted(q, c.ID, now); err != nil {
			return err
		}
		return tasks.Add(q, tasks.Task{Kind: Removal, Key: c.ID, RunAt: now})
	})
}

// Place returns a cluster of an organization and one of its queues; what is gone is zero.
func (s *Service) Place(ctx context.Context, orgID, clusterID, queueID string) (c Cluster, queue Queue, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		if c, err = ByID(q, orgID, clusterID); err != nil {
			return err
		}
		queue, err = queueByID(q, clusterID, queueID)
		return err
	})
	if core.KindOf(err) == core.NotFound {
		err = nil
	}
	return c, queue, err
}
