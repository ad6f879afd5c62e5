package agents

import (
	"cmp"
	"context"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
	"stackyard/internal/rules/flow"
)

// An acquisition is the content of a job acquisition token: the job that an agent may take, and the stack and
// the agent token that issued it. The token is signed instead of stored. It is valid until its expiry, while
// the agent token is valid and while the stack has the job reserved.
type acquisition struct {
	tokenID   string
	stackID   string
	jobID     string
	expiresAt time.Time
}

// acquisitionTokens signs and verifies job acquisition tokens.
type acquisitionTokens struct{ seal.Signer }

func newAcquisitionTokens(key seal.Key) acquisitionTokens {
	return acquisitionTokens{key.Signer("job acquisition token")}
}

const acquisitionSize = 3*idSize + 8

// issue returns the text of a token.
func (s acquisitionTokens) issue(a acquisition) string {
	claims := binary.BigEndian.AppendUint64(encodeIDs(a.tokenID, a.stackID, a.jobID), uint64(a.expiresAt.UnixMilli()))
	return s.Token(identity.AcquisitionTokenPrefix, claims)
}

// read returns the content of a token. ok is false unless the token was issued here.
func (s acquisitionTokens) read(text string) (a acquisition, ok bool) {
	claims, ok := s.Claims(identity.AcquisitionTokenPrefix, text, acquisitionSize)
	if !ok {
		return a, false
	}
	return acquisition{
		tokenID:   decodeID(claims, 0),
		stackID:   decodeID(claims, 1),
		jobID:     decodeID(claims, 2),
		expiresAt: time.UnixMilli(int64(binary.BigEndian.Uint64(claims[3*idSize:]))),
	}, true
}

// IssueAcquisition returns a token for an agent that may take only one job. It is valid until a time, while the
// agent token is valid and while the stack has the job reserved.
func (s *Service) IssueAcquisition(t *identity.AgentToken, stackID, jobID string, expiresAt time.Time) string {
	return s.acquisitionTokens.issue(acquisition{tokenID: t.ID, stackID: stackID, jobID: jobID, expiresAt: expiresAt})
}

var errUnknownAcquisition = core.Errorf(core.Unauthorized, "Authentication required. The job acquisition token is not valid, or has expired.")

// dedicate restricts an agent that registers to one job. It returns the key of the agent's queue: the
// requested one, or else the job's.
func (a *Agent) dedicate(q *db.Q, only *identity.JobAcquisition, requested string) (queueKey string, err error) {
	key, err := builds.QueueKey(q, a.OrganizationID, only.JobID)
	if core.KindOf(err) == core.NotFound {
		return "", core.Errorf(core.Unprocessable, "The job that the token is for does not exist any more")
	}
	if err != nil {
		return "", err
	}
	a.OnlyJob, a.StackID, a.Ignored = only.JobID, only.StackID, true
	return cmp.Or(requested, key), timeline.Record(q, timeline.Milestone{JobID: only.JobID, What: timeline.AgentRegistered, At: a.CreatedAt, By: a.ID})
}

// AuthenticateRegistration returns the agent token of an agent that registers from an address. A job
// acquisition token counts as the agent token that it was issued with, and restricts the agent to its job.
func (s *Service) AuthenticateRegistration(ctx context.Context, text string, from netip.Addr) (*identity.AgentToken, *identity.JobAcquisition, error) {
	if !strings.HasPrefix(text, identity.AcquisitionTokenPrefix) {
		t, err := s.dir.AuthenticateAgent(ctx, text, from)
		s.recordRefusal(ctx, err)
		return t, nil, err
	}
	if a, ok := s.machineTokens.read(text); ok {
		return s.authenticateMachine(ctx, a)
	}
	a, ok := s.acquisitionTokens.read(text)
	if !ok || !s.clock().Before(a.expiresAt) {
		return nil, nil, errUnknownAcquisition
	}
	t, err := s.dir.AgentTokenByID(ctx, a.tokenID, from)
	s.recordRefusal(ctx, err)
	if err != nil {
		return nil, nil, err
	}
	var reserved bool
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		reserved, err = dispatch.IsReservedBy(q, t.Organization.ID, a.stackID, a.jobID, s.clock())
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if !reserved {
		return nil, nil, errNotReserved
	}
	return t, &identity.JobAcquisition{JobID: a.jobID, StackID: a.stackID}, nil
}

var errNotReserved = core.Errorf(core.Unauthorized, "Authentication required. The stack that issued the job acquisition token does not have the job reserved any more.")

// checkReserved refuses an agent that registered for one job when the stack does not have the job reserved any
// more. In states other than scheduled, flow decides: the agent may have acquired the job already and repeat
// the call.
func (s *Service) checkReserved(q *db.Q, a *Agent, jobID string) error {
	if a.OnlyJob == "" {
		return nil
	}
	h, err := builds.HoldingOf(q, a.OrganizationID, jobID)
	if err != nil || h.State != flow.Scheduled {
		return err
	}
	if err := dispatch.Lock(q, jobID); err != nil {
		return err
	}
	reserved, err := dispatch.IsReservedBy(q, a.OrganizationID, a.StackID, jobID, s.clock())
	if err == nil && !reserved {
		err = core.Errorf(core.Unprocessable, "The stack that started this agent does not have the job reserved any more")
	}
	return err
}
