// Package buildapi serves builds and jobs over REST: lists and filters, views, and the actions of people on builds,
// jobs and step uploads. It also serves badges.
//
// Visitors of public pipelines get reduced views (visitor.go). The package has no tables: it reads and changes builds
// through package builds.
package buildapi

import (
	"context"
	"slices"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// Service serves builds and jobs over REST.
type Service struct {
	db        *db.DB
	builds    *lifecycle.Service
	pipelines *pipelines.Service
	public    core.PublicURL
	testRuns  TestRuns
	// checkDebug returns an error unless a member can have a job kept for debugging. Package remoteaccess provides it.
	checkDebug CheckDebug
}

// A CheckDebug returns an error unless a member of an organization can have a job kept for debugging.
type CheckDebug func(ctx context.Context, org *identity.Organization, member *identity.Membership, j *builds.Job) error

// AllowDebug sets who can have jobs kept for debugging. It must be called before the first request.
func (s *Service) AllowDebug(check CheckDebug) { s.checkDebug = check }

// New returns a Service.
func New(d *db.DB, b *lifecycle.Service, p *pipelines.Service, public core.PublicURL) *Service {
	return &Service{db: d, builds: b, pipelines: p, public: public}
}

// Routes returns the routes of builds, jobs, step uploads and badges.
func (s *Service) Routes() []route.Route {
	return slices.Concat(s.buildRoutes(), s.actionRoutes(), s.jobRoutes(), s.uploadRoutes(), s.badgeRoutes())
}
