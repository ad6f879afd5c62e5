package agents

import (
	"context"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/clusters"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// IssueMachineToken returns a job acquisition token for the agent on a machine of a hosted queue. It is valid until a
// time, while the machine has the job reserved.
func (s *Service) IssueMachineToken(clusterID, machineID, jobID string, expiresAt time.Time) string {
	return s.machineTokens.issue(acquisition{tokenID: clusterID, stackID: machineID, jobID: jobID, expiresAt: expiresAt})
}

// authenticateMachine returns what the agent on a machine registers with: a token of the machine's cluster that exists
// only here.
func (s *Service) authenticateMachine(ctx context.Context, a acquisition) (*identity.AgentToken, *identity.JobAcquisition, error) {
	if !s.clock().Before(a.expiresAt) {
		return nil, nil, errUnknownAcquisition
	}
	var cluster clusters.Cluster
	var reserved bool
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if cluster, err = clusters.Any(q, a.tokenID); err != nil {
			return err
		}
		reserved, err = dispatch.IsReservedBy(q, cluster.OrganizationID, a.stackID, a.jobID, s.clock())
		return err
	})
	if err != nil {
		return nil, nil, errUnknownAcquisition
	}
	if !reserved {
		return nil, nil, errNotReserved
	}
	org, err := s.dir.OrganizationByID(ctx, cluster.OrganizationID)
	if err != nil {
		return nil, nil, err
	}
	token := &identity.AgentToken{ID: a.stackID, Description: "hosted agents", ClusterID: cluster.ID, ClusterName: cluster.Name, Organization: *org}
	return token, &identity.JobAcquisition{JobID: a.jobID, StackID: a.stackID, Hosted: true}, nil
}

// EndMachine ends the job of a machine of a hosted queue that was removed, if its agent has not: the agent cannot
// report any more.
func (s *Service) EndMachine(q *db.Q, orgID, jobID string) error {
	h, err := builds.HoldingOf(q, orgID, jobID)
	if core.KindOf(err) == core.NotFound || err == nil && (h.AgentID == "" || h.State.Ended()) {
		return nil
	}
	if err != nil {
		return err
	}
	a, err := lockByID(q, orgID, h.AgentID)
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if err := deletePresence(q, a.ID); err != nil {
		return err
	}
	return s.markLost(q, a, "Its machine was removed.", s.clock())
}
