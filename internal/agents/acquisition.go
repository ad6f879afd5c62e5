package agents

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"stackyard/internal/builds"
	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
	"stackyard/internal/seal"
)

// An acquisition says which job an agent that registers may take, signed, so that nobody has to
// remember it. It is good until a time, and as long as the agent token is that a stack got it with.
type acquisition struct {
	tokenID string
	jobID   string
	until   time.Time
}

// acquisitions signs and reads job acquisition tokens.
type acquisitions []byte

func newAcquisitions(key seal.Key) acquisitions { return key.Derive("job acquisition token") }

const acquisitionSize = 2*idSize + 8

// issue returns the text of a token.
func (k acquisitions) issue(a acquisition) string {
	token, job := uuid.MustParse(a.tokenID), uuid.MustParse(a.jobID)
	claims := append(append(make([]byte, 0, acquisitionSize+sha256.Size), token[:]...), job[:]...)
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
	return acquisition{
		tokenID: uuid.UUID(claims[:idSize]).String(),
		jobID:   uuid.UUID(claims[idSize : 2*idSize]).String(),
		until:   time.UnixMilli(int64(binary.BigEndian.Uint64(claims[2*idSize:]))),
	}, true
}

// IssueAcquisition returns a token with which an agent can register that may take one job and no other,
// until a time, as long as the agent token is good.
func (s *Service) IssueAcquisition(t *identity.AgentToken, jobID string, until time.Time) string {
	return s.acquisitions.issue(acquisition{tokenID: t.ID, jobID: jobID, until: until})
}

var errUnknownAcquisition = core.Errorf(core.Unauthorized, "Authentication required. The job acquisition token is not valid, or has expired.")

// dedicate makes an agent that registers one for a single job, in the queue that it asks for or else in
// the job's, and returns the key of that queue.
func (a *Agent) dedicate(q *db.Q, jobID, asked string) (queueKey string, err error) {
	var key string
	err = q.QueryRow(`
		SELECT qu.key FROM jobs j JOIN queues qu ON qu.id = j.queue_id
		WHERE j.organization_id = $1 AND j.id = $2`, a.OrganizationID, jobID).Scan(&key)
	if errors.Is(err, db.ErrNoRows) {
		return "", core.Errorf(core.Unprocessable, "The job that the token is for does not exist any more")
	}
	if err != nil {
		return "", err
	}
	a.OnlyJob, a.Ignored = jobID, true
	return cmp.Or(asked, key), builds.NoteMilestones(q, builds.Milestone{JobID: jobID, What: builds.AgentRegistered, At: a.CreatedAt, By: a.ID})
}

// AuthenticateRegistration returns the agent token that an agent registers with from an address, and the
// job that it may take when it does so with a job acquisition token, which stands for the agent token
// that it was issued with.
func (s *Service) AuthenticateRegistration(ctx context.Context, text string, from netip.Addr) (t *identity.AgentToken, onlyJob string, err error) {
	if !strings.HasPrefix(text, identity.AcquisitionTokenPrefix) {
		t, err = s.dir.AuthenticateAgent(ctx, text, from)
		return t, "", err
	}
	a, ok := s.acquisitions.read(text)
	if !ok || !s.clock().Before(a.until) {
		return nil, "", errUnknownAcquisition
	}
	t, err = s.dir.AgentTokenByID(ctx, a.tokenID, from)
	return t, a.jobID, err
}
