package builds

import (
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// A Reader reads builds, jobs and steps.
type Reader struct {
	db         *db.DB
	pipelines  *pipelines.Service
	public     core.PublicURL
	agentNames AgentNames
}

// NewReader returns the reader of the builds in a database.
func NewReader(d *db.DB, p *pipelines.Service, public core.PublicURL) *Reader {
	return &Reader{db: d, pipelines: p, public: public}
}
