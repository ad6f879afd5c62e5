package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"
)

// tokenLength is how many base62 digits 32 bytes need.
const tokenLength = 43

// NewToken returns a new token: the prefix of its kind ("svcua_"), then 32 random bytes as letters and digits,
// always of the same length.
func NewToken(prefix string) string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	digits := new(big.Int).SetBytes(b[:]).Text(62)
	return prefix + strings.Repeat("0", tokenLength-len(digits)) + digits
}

// HashToken returns the form in which a token is stored and looked up: its SHA-256 in hex. A fast hash is safe
// here, unlike for passwords, because 32 random bytes cannot be guessed.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
