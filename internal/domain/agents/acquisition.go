package agents

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/dispatch"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
	"stackyard/internal/rules/flow"
)

// An acquisition is what a job acquisition token says: which job an agent that registers may take, and which
// stack issued it with which agent token. It is signed instead of stored. It is valid until a time, while the
// agent token is, and while the stack has the job reserved.
type acquisition struct {
	tokenID string
	stackID string
	jobID   string
	until   time.Time
}

// acquisitions signs and reads job acquisition tokens.
type acquisitions []byte

func newAcquisitions(key seal.Key) acquisitions { return key.Derive("job acquisition token") }

const acquisitionSize = 3*idSize + 8

// issue returns the text of a token.
func (k acquisitions) issue(a acquisition) string {
	claims := make([]byte, 0, acquisitionSize+sha256.Size)
	for _, id := range []string{a.tokenID, a.stackID, a.jobID} {
		u := uuid.MustParse(id)
		claims = append(claims, u[:]...)
	}
	claims = binary.BigEndian.AppendUint64(claims, uint64(a.until.UnixMilli()))
	return identity.AcquisitionTokenPrefix + base64.RawURLEncoding.EncodeToString(append(claims, k.sign(claims)...))
}

func (k acquisitions) sign(claims []byte) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write(claims)
	return mac.Sum(nil)
}

// read returns what the text of a token says, and whether it is one that was issued here.
func (k acquisitions) read(text string) (a acquisition, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimPrefix(text, identity.AcquisitionTokenPrefix))
	if err != nil || len(b) != acquisitionSize+sha256.Size {
		return a, false
	}
	claims, signature := b[:acquisitionSize], b[acquisitionSize:]
	if !hmac.Equal(signature, k.sign(claims)) {
		return a, false
	}
	id := func(i int) string { return uuid.UUID(claims[i*idSize : (i+1)*idSize]).String() }
	return acquisition{
		tokenID: id(0),
		stackID: id(1),
		jobID:   id(2),
		until:   time.UnixMilli(int64(binary.BigEndian.Uint64(claims[3*idSize:]))),
	}, true
}

// IssueAcquisition returns a token with which an agent can register that may take one job and no other,
// until a time, while the agent token is valid and the stack has the job reserved.
func (s *Service) IssueAcquisition(t *identity.AgentToken, stackID, jobID string, until time.Time) string {
	return s.acquisitions.issue(acquisition{tokenID: t.ID, stackID: stackID, jobID: jobID, until: until})
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

// AuthenticateRegistration returns the agent token that an agent registers with from an address. A job
// acquisition token stands for the agent token that it was issued with, and limits the agent to its job.
func (s *Service) AuthenticateRegistration(ctx context.Context, text string, from netip.Addr) (*identity.AgentToken, *identity.JobAcquisition, error) {
	if !strings.HasPrefix(text, identity.AcquisitionTokenPrefix) {
		t, err := s.dir.AuthenticateAgent(ctx, text, from)
		return t, nil, err
	}
	a, ok := s.acquisitions.read(text)
	if !ok || !s.clock().Before(a.until) {
		return nil, nil, errUnknownAcquisition
	}
	t, err := s.dir.AgentTokenByID(ctx, a.tokenID, from)
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

// checkReserved refuses to let an agent acquire its one job when the stack that issued its token does not
// have the job reserved any more. A job in any other state than scheduled is for flow to judge: the agent may
// have acquired it already, and repeat the call.
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
