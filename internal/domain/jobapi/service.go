// Package jobapi serves what a running job requests over the agent API: artifacts, log chunks, meta-data,
// annotations, step changes, pipeline uploads, secrets and clone tokens.
//
// Package agents authenticates each request: it loads the job of the token and refuses other jobs. Bytes of
// artifacts are sent and fetched at signed URLs (signedurl.go) that need no token and expire. Each part of an
// artifact is one blob, and is stored only if its size and checksum match (receive.go).
//
// The package stores no rows: artifacts, caches, annotations, builds (meta-data and uploads), joblog and jobusage do.
package jobapi

import (
	"log/slog"
	"slices"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/annotations"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/domain/caches"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/joblog"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/seal"
)

// Service handles requests of running jobs.
type Service struct {
	db          *db.DB
	agents      *agents.Service
	annotations *annotations.Service
	artifacts   *artifacts.Service
	blobs       *blob.Store
	caches      *caches.Service
	builds      *lifecycle.Service
	clusters    *clusters.Service
	logs        *joblog.Service
	pipelines   *pipelines.Service
	public      core.PublicURL
	log         *slog.Logger
	urls        urlSigner
}

// Parts are the dependencies of a Service.
type Parts struct {
	DB          *db.DB
	Agents      *agents.Service
	Annotations *annotations.Service
	Artifacts   *artifacts.Service
	Blobs       *blob.Store
	Caches      *caches.Service
	Builds      *lifecycle.Service
	Clusters    *clusters.Service
	Logs        *joblog.Service
	Pipelines   *pipelines.Service
	Key         seal.Key
	Public      core.PublicURL
	Content     core.PublicURL // where artifacts are downloaded; empty: Public
	Clock       core.Clock
	Log         *slog.Logger
}

// New returns a Service.
func New(p Parts) *Service {
	return &Service{
		db: p.DB, agents: p.Agents, annotations: p.Annotations, artifacts: p.Artifacts, blobs: p.Blobs, caches: p.Caches, builds: p.Builds, clusters: p.Clusters, logs: p.Logs, pipelines: p.Pipelines,
		public: p.Public, log: p.Log,
		urls: newURLSigner(p.Key, p.Public, p.Content, p.Clock),
	}
}

// Routes returns the routes of running jobs, and those at which artifacts are sent and fetched.
func (s *Service) Routes() []route.Route {
	return slices.Concat(
		s.metaDataRoutes(), s.annotationRoutes(), s.uploadRoutes(), s.stepRoutes(), s.artifactRoutes(), s.fileRoutes(), s.secretRoutes(), s.cacheRoutes(), s.logRoutes(), s.usageRoutes(),
	)
}
