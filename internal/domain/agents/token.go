package agents

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/google/uuid"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A jobToken says which job an agent was given, signed, so that nobody has to remember it. It is good
// for as long as the agent holds the job, which is asked of the job itself.
type jobToken struct {
	organizationID, agentID, jobID string
}

// signer signs job tokens.
type signer []byte

func newSigner(key seal.Key) signer { return key.Derive("job token") }

const idSize = len(uuid.UUID{})

// issue returns the text of a token.
func (s signer) issue(t jobToken) string {
	var claims []byte
	for _, id := range []string{t.organizationID, t.agentID, t.jobID} {
		u := uuid.MustParse(id)
		claims = append(claims, u[:]...)
	}
	return identity.JobTokenPrefix + base64.RawURLEncoding.EncodeToString(append(claims, s.sign(claims)...))
}

func (s signer) sign(claims []byte) []byte {
	mac := hmac.New(sha256.New, s)
	mac.Write(claims)
	return mac.Sum(nil)
}

// read returns what the text of a token says, and whether it is one that was issued here.
func (s signer) read(text string) (t jobToken, ok bool) {
	text, ok = strings.CutPrefix(text, identity.JobTokenPrefix)
	if !ok {
		return t, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != 3*idSize+sha256.Size {
		return t, false
	}
	claims, signature := b[:3*idSize], b[3*idSize:]
	if !hmac.Equal(signature, s.sign(claims)) {
		return t, false
	}
	id := func(i int) string { return uuid.UUID(claims[i*idSize : (i+1)*idSize]).String() }
	return jobToken{organizationID: id(0), agentID: id(1), jobID: id(2)}, true
}

var errUnknownToken = core.Errorf(core.Unauthorized, "Authentication required. Supply the token of a registered agent, or of a job that it holds.")
