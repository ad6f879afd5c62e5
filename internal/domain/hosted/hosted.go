// Package hosted is about agents that the service itself runs: those of hosted queues.
//
// Today it opens remote sessions into their jobs: a desktop (VNC) or a shell (SSH). All that the
// specification asks before there can be a session is asked here (session.go): whether the organization has
// hosted agents and lets people into them, and whether the job is one that has a machine to get into.
//
// The session itself can only come from the provider that runs the machine, and this installation has
// none: jobs of hosted queues find no agent, and a session is answered with status 503. A provider
// takes the place of [errNoProvider].
package hosted

import (
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Service is what can be done with hosted agents.
type Service struct {
	db     *db.DB
	builds *builds.Service
}

// New returns the service of the hosted agents that run a database's jobs.
func New(d *db.DB, b *builds.Service) *Service { return &Service{db: d, builds: b} }

// errNoProvider is why nobody could create a session. It will not be otherwise soon.
var errNoProvider = &core.Error{
	Kind:       core.Unavailable,
	Message:    "The session could not be created: this installation has no provider for hosted agents",
	RetryAfter: 3600,
}
