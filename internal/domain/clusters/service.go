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

// Service manages clusters. Each operation is one transaction.
type Service struct {
	db     *db.DB
	dir    *identity.Directory
	key    seal.Key
	public core.PublicURL
	clock  core.Clock
	// checkImage returns an error if a queue of a cluster cannot use an image.
	checkImage func(q *db.Q, c Cluster, ref string) error
}

// New returns a Service. key encrypts secrets.
func New(d *db.DB, dir *identity.Directory, key seal.Key, public core.PublicURL, clock core.Clock) *Service {
	return &Service{db: d, dir: dir, key: key, public: public, clock: clock}
}

// load returns the cluster in the path.
func (s *Service) load(r *route.Request) (c maintained, err error) {
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		c, err = clusterInPath(q, r)
		return err
	})
	return c, err
}

// Guard returns the cluster in the path and the guard that decides who can change it or anything in it.
func (s *Service) Guard(r *route.Request) (Cluster, route.Guarded, error) {
	c, err := s.load(r)
	return c.Cluster, c, err
}

func clusterInPath(q *db.Q, r *route.Request) (maintained, error) {
	id, err := r.PathID("cluster", noCluster)
	if err != nil {
		return maintained{}, err
	}
	return maintainedByID(q, r.Org.ID, id)
}

// resourceLoader returns a function that loads a resource of the cluster in the path by the id in a path
// segment.
func resourceLoader[T any](s *Service, segment, notFound string, find func(q *db.Q, clusterID, id string) (T, error)) func(*route.Request) (resource[T], error) {
	return func(r *route.Request) (p resource[T], err error) {
		err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
			if p.maintained, err = clusterInPath(q, r); err != nil {
				return err
			}
			id, err := r.PathID(segment, notFound)
			if err != nil {
				return err
			}
			p.item, err = find(q, p.ID, id)
			return err
		})
		return p, err
	}
}

// create adds a cluster with its first maintainers. Its name must be unique.
func (s *Service) create(ctx context.Context, c Cluster, refs []maintainerRef) (maintained, error) {
	var result maintained
	err := s.db.Write(ctx, func(q *db.Q) error {
		if err := insertCluster(q, c); err != nil {
			return err
		}
		for i, n := range refs {
			if _, err := assignMaintainer(q, c, n, maintainerField(i), c.CreatedAt); err != nil {
				return err
			}
		}
		var err error
		result, err = maintainedByID(q, c.OrganizationID, c.ID)
		return err
	})
	return result, uniqueError(err, "name")
}

// uniqueError converts a violated unique constraint into a validation error of field. Ids and tokens never
// collide.
func uniqueError(err error, field string) error {
	if !db.IsUnique(err) {
		return err
	}
	var problems core.Problems
	problems.Add(field, "has already been taken")
	return problems.Err()
}

// change applies change to a cluster while holding its lock.
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
	return result, uniqueError(err, "name")
}

// Removal is the kind of the task that removes the contents of a deleted cluster. Its key is the cluster's id.
// Package agents handles it.
const Removal = "cluster-removal"

// delete hides a cluster with its queues, tokens, secrets, maintainers and agents at once and enqueues their
// removal. It fails while pipelines use the cluster.
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

// ClusterAndQueue returns a cluster of an organization and one of its queues. Deleted ones are zero.
func (s *Service) ClusterAndQueue(ctx context.Context, orgID, clusterID, queueID string) (c Cluster, queue Queue, err error) {
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
