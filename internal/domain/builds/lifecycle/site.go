package lifecycle

import (
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/settings"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// maxSites is how many sites are cached.
const maxSites = 1_000

// A site is where builds of a pipeline run. A pipeline that cannot be built has none.
type site struct {
	settings settings.Settings
	cluster  clusters.Cluster
	queues   map[string]string // ids by key, the default queue by ""
}

type siteKey struct {
	org                   *identity.Organization
	pipelineID, clusterID string
}

func newSites(d *db.DB) *db.Cached[siteKey, site] {
	return db.NewCached[siteKey, site](d, maxSites, "pipelines", "pipeline_settings", "clusters", "queues", "users")
}

// site locks the pipeline and returns the site of its builds. also runs a statement with [db.Q.Later] or [db.EachLater]
// under that lock, in the same round trip; it has run when site returns.
func (d *Draft) site(q *db.Q, also func() error) (site, error) {
	if !q.SingleWriter() || d.requested.Organization == nil {
		return d.readSite(q, also)
	}
	s, err := d.service.sites.Get(q, siteKey{d.org, d.pipeline.ID, d.pipeline.ClusterID}, func(q *db.Q) (site, error) {
		return d.readSite(q, func() error { return nil })
	})
	if err != nil {
		return site{}, err
	}
	return s, also()
}

func (d *Draft) readSite(q *db.Q, also func() error) (s site, err error) {
	p := d.pipeline
	check, err := pipelines.LockForBuild(q, d.org.ID, p.ID)
	if err != nil {
		return s, err
	}
	if err := settings.ReadLater(q, d.org.ID, &s.settings); err != nil {
		return s, err
	}
	own, err := clusters.WithQueueIDs(q, d.org.ID, p.ClusterID)
	if err != nil {
		return s, err
	}
	if err := also(); err != nil {
		return s, err
	}
	if err := check(); err != nil {
		return s, err
	}
	if s.cluster, s.queues, err = own(); core.KindOf(err) != core.NotFound {
		return s, err
	}
	if s.cluster, err = clusterOf(q, p, s.settings); err != nil {
		return s, err
	}
	s.queues, err = clusters.QueueIDs(q, s.cluster)
	return s, err
}
