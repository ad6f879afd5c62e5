package oauth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"
	"unicode"

	"stackyard/internal/seal"
)

// userCodeLetters are the letters of user codes: no vowels, so that codes are not words, and nothing
// that looks like a digit.
const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"

// userCodeLength is how many letters a user code has: some 2.6e10 codes, of which the limits on guessing
// let nobody try a notable part in the ten minutes of one.
const userCodeLength = 8

// newUserCode returns a user code as it is shown: XXXX-XXXX.
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

// ParseUserCode returns a user code as it is shown, from what a person entered: in any case, with spaces
// and dashes anywhere. It is not ok when no code looks like that.
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

// userCodes hashes user codes. Unlike a token, a user code could be found by trying all of them against
// a plain hash, so the hash takes a key that is not in the database.
type userCodes struct{ key []byte }

func newUserCodes(key seal.Key) userCodes { return userCodes{key.Derive("oauth user codes")} }

func (u userCodes) hash(code string) string {
	h := hmac.New(sha256.New, u.key)
	h.Write([]byte(code))
	return hex.EncodeToString(h.Sum(nil))
}
