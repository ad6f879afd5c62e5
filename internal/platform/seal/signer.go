package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// A Signer signs messages for one purpose with HMAC-SHA-256, so that their contents do not have to be stored.
type Signer struct{ key []byte }

// Signer returns the signer for a purpose. Signatures for one purpose are not valid for another.
func (k Key) Signer(purpose string) Signer { return Signer{k.Derive(purpose)} }

// Sign returns the signature of a message.
func (s Signer) Sign(message []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write(message)
	return mac.Sum(nil)
}

// Verify reports in constant time whether signature is the signature of message.
func (s Signer) Verify(message, signature []byte) bool { return hmac.Equal(signature, s.Sign(message)) }

// Token returns a token that carries claims and their signature: prefix, then both in base64.
func (s Signer) Token(prefix string, claims []byte) string {
	return prefix + base64.RawURLEncoding.EncodeToString(append(claims[:len(claims):len(claims)], s.Sign(claims)...))
}

// Claims returns the claims of a token that [Signer.Token] made; they are size bytes long. ok is false for any
// other text.
func (s Signer) Claims(prefix, token string, size int) (claims []byte, ok bool) {
	text, ok := strings.CutPrefix(token, prefix)
	if !ok {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != size+sha256.Size || !s.Verify(b[:size], b[size:]) {
		return nil, false
	}
	return b[:size], true
}
