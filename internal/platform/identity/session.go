package identity

import (
	"context"

	"stackyard/internal/platform/db"
)

// The prefixes of the tokens that agents get when they register, and for each job.
const (
	SessionTokenPrefix = "svcas_"
	JobTokenPrefix     = "svcaj_"
)

// An AgentSession is the caller with the token of a registered agent, or of a job that an agent accepted.
type AgentSession struct {
	AgentID      string
	Organization Organization
	ClusterID    string
	QueueID      string // "": the queue is gone
	// JobID is the job of the token; "" for the agent's own token.
	JobID string
}

// A JobAcquisition limits an agent that registers with a job acquisition token to one job, as long as the stack
// that issued the token has the job reserved.
type JobAcquisition struct {
	JobID   string
	StackID string
	// Hosted is set for an agent on a machine of a hosted queue; StackID is the id of the machine.
	Hosted bool
}

// OrganizationByID returns the organization with an id, or a NotFound error.
func (d *Directory) OrganizationByID(ctx context.Context, id string) (*Organization, error) {
	return cached(ctx, d, d.orgs, id, func(q *db.Q) (*Organization, error) { return OrganizationByID(q, id) })
}
