package oauth

import (
	"crypto/rand"
	"encoding/hex"
	"math/big"
	"strings"
	"unicode"

	"stackyard/internal/platform/seal"
)

// userCodeLetters has no vowels, so that codes are not words, and no letters that look like digits.
const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"

// userCodeLength gives 2.6e10 codes; rate limits make guessing one within its ten minutes infeasible.
const userCodeLength = 8

// newUserCode returns a user code formatted as XXXX-XXXX.
func newUserCode() string {
	letters := make([]byte, userCodeLength)
	for i := range letters {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(userCodeLetters)))) // never fails
		letters[i] = userCodeLetters[n.Int64()]
	}
	return showUserCode(string(letters))
}

func showUserCode(letters string) string {
	return letters[:userCodeLength/2] + "-" + letters[userCodeLength/2:]
}

// ParseUserCode normalizes a user code entered in any case, with any spaces and dashes. ok is false for
// malformed input.
func ParseUserCode(entered string) (code string, ok bool) {
	var letters strings.Builder
	for _, r := range entered {
		switch upper := unicode.ToUpper(r); {
		case unicode.IsSpace(r) || unicode.Is(unicode.Dash, r):
		case strings.ContainsRune(userCodeLetters, upper) && letters.Len() < userCodeLength:
			letters.WriteRune(upper)
		default:
			return "", false
		}
	}
	if letters.Len() != userCodeLength {
		return "", false
	}
	return showUserCode(letters.String()), true
}

// userCodes hashes user codes. A plain hash of a short code could be reversed by trying all codes, so the hash
// uses a key that is not in the database.
type userCodes struct{ signer seal.Signer }

func newUserCodes(key seal.Key) userCodes { return userCodes{key.Signer("oauth user codes")} }

func (u userCodes) hash(code string) string { return hex.EncodeToString(u.signer.Sign([]byte(code))) }
