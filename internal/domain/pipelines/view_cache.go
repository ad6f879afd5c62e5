package pipelines

import (
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/lru"
	"stackyard/internal/platform/route"
)

const (
	// maxViews is how many responses are cached.
	maxViews = 1_000
	// maxViewSize is the size limit of a pipeline whose response is cached, in bytes.
	maxViewSize = 32 << 10
)

// views caches responses with one pipeline, where this process is the only one that changes pipelines: on SQLite.
// On PostgreSQL other replicas change them, and nothing is cached.
//
// A response depends on rows, whose tables are watched, and on what the directory caches. The key contains pointers
// from there, which are others after any change, also after one by another process.
type views struct {
	settings *db.Watch // nil: nothing is cached
	counts   *db.Watch
	cached   *lru.Cache[viewKey, *cachedView]
}

type viewKey struct {
	org    *identity.Organization
	caller *identity.Caller
	slug   string
}

// A cachedView is a response and the versions from before it was read.
type cachedView struct {
	pipeline         *Pipeline // nothing changes it
	settings, counts int64
	body             route.Encoded[PipelineView]
}

func newViews(d *db.DB) views {
	return views{
		settings: d.Watch("pipelines", "pipeline_templates", "source_connections", "clusters", "users", "memberships", "teams", "team_members", "team_pipelines"),
		counts:   d.Watch("pipeline_counts"),
		cached:   lru.New[viewKey, *cachedView](maxViews),
	}
}

// A shownPipeline is a pipeline to respond with.
type shownPipeline struct {
	*Pipeline
	cachedView
}

// loadShown is Load for a response with the pipeline, from the cache if possible.
func (s *Service) loadShown(r *route.Request) (shownPipeline, error) {
	if s.views.settings == nil {
		p, err := s.Load(r)
		return shownPipeline{Pipeline: p}, err
	}
	now := cachedView{settings: s.views.settings.Version(), counts: s.views.counts.Version()}
	known, ok := s.views.cached.Get(viewKey{r.Org, r.Caller, r.PathValue("pipeline")})
	switch {
	case !ok || known.settings != now.settings:
		p, err := s.Load(r)
		now.pipeline = p
		return shownPipeline{p, now}, err
	case known.counts != now.counts && !known.pipeline.visited:
		p := *known.pipeline
		p.Counts = Counts{}
		err := s.db.Read(r.Context(), func(q *db.Q) error { return loadCounts(q, &p) })
		now.pipeline = &p
		return shownPipeline{&p, now}, err
	}
	return shownPipeline{known.pipeline, *known}, nil
}

// LoadShared is Load from the cache if possible. The caller must not change the pipeline.
func (s *Service) LoadShared(r *route.Request) (*Pipeline, error) {
	p, err := s.loadShown(r)
	if err == nil && p.pipeline != nil && p.body.JSON == nil && len(p.Configuration) <= maxViewSize {
		s.views.cached.Add(viewKey{r.Org, r.Caller, r.PathValue("pipeline")}, &p.cachedView)
	}
	return p.Pipeline, err
}

func (s *Service) getPipeline(r *route.Request, p shownPipeline) (route.Encoded[PipelineView], error) {
	if p.body.JSON != nil {
		return p.body, nil
	}
	body, err := route.Encode(s.View(r, p.Pipeline))
	if err == nil && p.pipeline != nil && len(body.JSON) <= maxViewSize {
		p.cachedView.body = body
		s.views.cached.Add(viewKey{r.Org, r.Caller, r.PathValue("pipeline")}, &p.cachedView)
	}
	return body, err
}
