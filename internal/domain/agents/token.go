package agents

import (
	"github.com/google/uuid"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A jobToken is the content of the token of a job that an agent has accepted. The token is signed instead of
// stored. It is valid while the agent has the job, which each request checks.
type jobToken struct {
	organizationID, agentID, jobID string
}

// jobTokens signs and verifies job tokens.
type jobTokens struct{ seal.Signer }

func newJobTokens(key seal.Key) jobTokens { return jobTokens{key.Signer("job token")} }

// issue returns the text of a token.
func (s jobTokens) issue(t jobToken) string {
	return s.Token(identity.JobTokenPrefix, encodeIDs(t.organizationID, t.agentID, t.jobID))
}

// read returns the content of a token. ok is false unless the token was issued here.
func (s jobTokens) read(text string) (t jobToken, ok bool) {
	claims, ok := s.Claims(identity.JobTokenPrefix, text, 3*idSize)
	if !ok {
		return t, false
	}
	return jobToken{organizationID: decodeID(claims, 0), agentID: decodeID(claims, 1), jobID: decodeID(claims, 2)}, true
}

const idSize = len(uuid.UUID{})

// encodeIDs returns the bytes of ids, one after the other.
func encodeIDs(ids ...string) []byte {
	b := make([]byte, 0, len(ids)*idSize)
	for _, id := range ids {
		u := uuid.MustParse(id)
		b = append(b, u[:]...)
	}
	return b
}

// decodeID returns the id at an index of bytes that encodeIDs returned.
func decodeID(b []byte, i int) string { return uuid.UUID(b[i*idSize : (i+1)*idSize]).String() }

var errUnknownToken = core.Errorf(core.Unauthorized, "Authentication required. Supply the token of a registered agent, or of a job that it holds.")
