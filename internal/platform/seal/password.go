package seal

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/crypto/argon2"

	"stackyard/internal/platform/core"
)

// MaxPassword is the maximum length of a password, in bytes.
const MaxPassword = 1024

// The cost of a new hash: 19 MiB and two passes, the minimum recommended today, so that a small machine can
// serve a whole team.
const (
	memoryKiB = 19 * 1024
	passes    = 2
	lanes     = 1
	saltSize  = 16
	hashSize  = 32
)

// hashing bounds how many hashes are computed at once, so that a burst of sign-ins waits instead of using 19
// MiB each.
var hashing = make(chan struct{}, min(runtime.GOMAXPROCS(0), 4))

// HashPassword returns the argon2id hash of a password, in the usual text form with parameters and salt. It
// refuses only the empty password and passwords over MaxPassword.
func HashPassword(password string) (string, error) {
	if password == "" {
		return "", core.Errorf(core.Unprocessable, "The password must not be empty")
	}
	if len(password) > MaxPassword {
		return "", core.Errorf(core.Unprocessable, "The password must not be longer than %d bytes", MaxPassword)
	}
	h := passwordHash{memoryKiB: memoryKiB, passes: passes, lanes: lanes, salt: make([]byte, saltSize)}
	rand.Read(h.salt) // never fails
	h.sum = h.compute(password, hashSize)
	return h.String(), nil
}

// CheckPassword reports whether a hash was made from this password. With an empty hash (the email is unknown,
// or the user has no password) it returns false after the same work, so that the response time does not reveal
// who has an account.
func CheckPassword(hash, password string) bool {
	if len(password) > MaxPassword {
		return false
	}
	h, ok := parsePasswordHash(hash)
	if !ok {
		dummy := passwordHash{memoryKiB: memoryKiB, passes: passes, lanes: lanes, salt: make([]byte, saltSize)}
		dummy.compute(password, hashSize)
		return false
	}
	return subtle.ConstantTimeCompare(h.sum, h.compute(password, len(h.sum))) == 1
}

// passwordHash is a hash with its parameters.
type passwordHash struct {
	memoryKiB, passes uint32
	lanes             uint8
	salt, sum         []byte
}

func (h passwordHash) compute(password string, size int) []byte {
	hashing <- struct{}{}
	defer func() { <-hashing }()
	return argon2.IDKey([]byte(password), h.salt, h.passes, h.memoryKiB, h.lanes, uint32(size))
}

func (h passwordHash) String() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memoryKiB, h.passes, h.lanes,
		base64.RawStdEncoding.EncodeToString(h.salt), base64.RawStdEncoding.EncodeToString(h.sum))
}

// parsePasswordHash parses the output of String, also with other parameters than today's, because stored hashes
// keep theirs. It refuses parameters that would exhaust the machine.
func parsePasswordHash(s string) (h passwordHash, ok bool) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return h, false
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memoryKiB, &h.passes, &h.lanes); err != nil {
		return h, false
	}
	if h.memoryKiB > 128*1024 || h.passes < 1 || h.passes > 16 || h.lanes < 1 {
		return h, false
	}
	var saltErr, sumErr error
	h.salt, saltErr = base64.RawStdEncoding.DecodeString(parts[4])
	h.sum, sumErr = base64.RawStdEncoding.DecodeString(parts[5])
	if saltErr != nil || sumErr != nil || len(h.sum) < 16 || len(h.sum) > 64 {
		return h, false
	}
	return h, true
}
