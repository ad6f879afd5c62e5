// Package hosted opens remote sessions, a desktop (VNC) or a shell (SSH), into jobs on hosted agents: agents
// that the service itself runs.
//
// It checks all preconditions of a session (session.go): the organization has hosted agents and allows remote
// access, and the job runs on a machine that supports it. Only a provider of hosted agents can open the session
// itself. This installation has none, so every session ends with [errNoProvider].
package hosted

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Service serves remote sessions.
type Service struct {
	db     *db.DB
	builds *builds.Service
}

// New returns a Service.
func New(d *db.DB, b *builds.Service) *Service { return &Service{db: d, builds: b} }

// errNoProvider refuses every session. A provider of hosted agents replaces it.
var errNoProvider = &core.Error{
	Kind:       core.Unavailable,
	Message:    "The session could not be created: this installation has no provider for hosted agents",
	RetryAfter: 3600,
}
