// Package buildapi serves builds and jobs over REST: lists and filters, views, and the actions of people on builds,
// jobs and step uploads. It also serves badges.
//
// Visitors of public pipelines get reduced views (visitor.go). The package has no tables: it reads and changes builds
// through package builds.
package buildapi

import (
	"slices"

	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// Service serves builds and jobs over REST.
type Service struct {
	db        *db.DB
	builds    *lifecycle.Service
	pipelines *pipelines.Service
	public    core.PublicURL
	testRuns  TestRuns
}

// New returns a Service.
func New(d *db.DB, b *lifecycle.Service, p *pipelines.Service, public core.PublicURL) *Service {
	return &Service{db: d, builds: b, pipelines: p, public: public}
}

// Routes returns the routes of builds, jobs, step uploads and badges.
func (s *Service) Routes() []route.Route {
	return slices.Concat(s.buildRoutes(), s.actionRoutes(), s.jobRoutes(), s.uploadRoutes(), s.badgeRoutes())
}
