package agents

import (
	"context"

	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/lru"
)

// maxSurroundings is how many are cached.
const maxSurroundings = 1_000

// surroundings are what the environment of a job has of its pipeline and of the cluster of its agent. Nothing changes
// them.
type surroundings struct {
	version  int64 // of the watch, from before they were read
	pipeline *pipelines.Pipeline
	cluster  clusters.Cluster
}

// surroundingsKey identifies surroundings. The pointer to the organization comes from the directory and is another one
// after another process applied an organization file.
type surroundingsKey struct {
	org                   *identity.Organization
	pipelineID, clusterID string
}

// A surroundingsCache keeps surroundings where this process is the only one that changes pipelines: on SQLite.
type surroundingsCache struct {
	watch  *db.Watch // nil: nothing is cached
	cached *lru.Cache[surroundingsKey, surroundings]
}

func newSurroundingsCache(d *db.DB) surroundingsCache {
	return surroundingsCache{
		watch:  d.Watch("pipelines", "pipeline_templates", "source_connections", "users", "clusters"),
		cached: lru.New[surroundingsKey, surroundings](maxSurroundings),
	}
}

// surroundingsOf returns a pipeline and a cluster of an organization, or a NotFound error.
func (s *Service) surroundingsOf(ctx context.Context, org *identity.Organization, pipelineID, clusterID string) (found surroundings, err error) {
	key := surroundingsKey{org, pipelineID, clusterID}
	if s.surroundings.watch != nil {
		found.version = s.surroundings.watch.Version()
		if known, ok := s.surroundings.cached.Get(key); ok && known.version == found.version {
			return known, nil
		}
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		if found.pipeline, err = pipelines.ByID(q, pipelines.System(org.ID), pipelineID); err != nil {
			return err
		}
		found.cluster, err = clusters.ByID(q, org.ID, clusterID)
		return err
	})
	if err == nil && s.surroundings.watch != nil {
		s.surroundings.cached.Add(key, found)
	}
	return found, err
}
