// Package seal protects secrets at rest in three ways. Secrets that must be read back (cluster secrets,
// provider settings) are encrypted with the installation's Key. Passwords are hashed slowly, because people
// choose them. Tokens are so random that a plain hash is safe.
//
// The package stores nothing: it converts secrets to text for a column, and back.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

const keySize = 32

// A Key is the installation's secret key. It is never printed or logged. The zero Key is invalid: it seals and
// opens nothing.
type Key struct{ secret [keySize]byte }

// NewKey returns a new random key.
func NewKey() Key {
	var k Key
	rand.Read(k.secret[:]) // never fails
	return k
}

// ParseKey parses a key of 32 bytes in hex or base64, of either alphabet, padded or not. It ignores surrounding
// space, so the content of a key file can be passed unchanged. The error never quotes the input.
func ParseKey(s string) (Key, error) {
	s = strings.TrimSpace(s)
	b, ok := decodeKey(s)
	if !ok {
		return Key{}, errors.New("the secret key is neither hex nor base64; " + howToMakeKey)
	}
	if len(b) != keySize {
		return Key{}, fmt.Errorf("the secret key is %d bytes long, not %d; %s", len(b), keySize, howToMakeKey)
	}
	k := Key{[keySize]byte(b)}
	if k == (Key{}) {
		return Key{}, errors.New("the secret key is all zeros; " + howToMakeKey)
	}
	return k, nil
}

const howToMakeKey = "make one with: openssl rand -hex 32"

// decodeKey tries hex first: no base64 text of 32 bytes is as long as their hex text.
func decodeKey(s string) (b []byte, ok bool) {
	if b, err := hex.DecodeString(s); err == nil {
		return b, true
	}
	s = strings.TrimRight(s, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := encoding.DecodeString(s); err == nil {
			return b, true
		}
	}
	return nil, false
}

// Hex returns the key itself, for the file that stores a generated one.
func (k Key) Hex() string { return hex.EncodeToString(k.secret[:]) }

// String returns a placeholder.
func (k Key) String() string { return "[secret key]" }

// Format writes the placeholder for every verb: %d and %x would otherwise reach the bytes.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// Fingerprint identifies the key without revealing it. The database has it, to refuse another key, and so does
// every sealed text.
func (k Key) Fingerprint() string {
	return hex.EncodeToString(k.expand("fingerprint", 8))
}

// Derive returns 32 bytes for one purpose, for example to sign one kind of token. Bytes for different purposes
// are unrelated, and do not reveal the key.
func (k Key) Derive(purpose string) []byte {
	return k.expand("derive:"+purpose, keySize)
}

// expand is HKDF without its extract step, which a uniformly random key does not need.
func (k Key) expand(label string, size int) []byte {
	b, err := hkdf.Expand(sha256.New, k.secret[:], "stackyard/"+label, size)
	if err != nil {
		panic(err) // only a size over 255 hashes is refused
	}
	return b
}

// A sealed text is the format's version, the fingerprint of the key, and nonce and ciphertext in
// base64, with dots between them.
const sealedVersion = "s1"

// Seal encrypts plaintext into text for a TEXT column. Open needs the same context, so a context that names the
// row ("cluster_secret:"+id) binds the value to its row: a copy in another row does not open.
func (k Key) Seal(plaintext []byte, context string) (string, error) {
	aead, err := k.aead()
	if err != nil {
		return "", err
	}
	ciphertext := aead.Seal(nil, nil, plaintext, []byte(context))
	return sealedVersion + "." + k.Fingerprint() + "." + base64.RawURLEncoding.EncodeToString(ciphertext), nil
}

// Open returns the plaintext of a text that Seal made with the same key and context.
func (k Key) Open(sealed, context string) ([]byte, error) {
	version, rest, _ := strings.Cut(sealed, ".")
	fingerprint, body, found := strings.Cut(rest, ".")
	if version != sealedVersion || !found {
		return nil, errors.New("this is not a sealed value")
	}
	if own := k.Fingerprint(); fingerprint != own {
		return nil, fmt.Errorf("the value was sealed with the key %s, and this installation's key is %s", fingerprint, own)
	}
	ciphertext, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		return nil, errors.New("the sealed value is damaged: its last part is not base64")
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	plaintext, err := aead.Open(nil, nil, ciphertext, []byte(context))
	if err != nil {
		return nil, errors.New("the sealed value was changed, or moved here from another place")
	}
	return plaintext, nil
}

// aead uses a random nonce for each Seal: 96 bits stay unique for the first four billion values of a key, far
// more secrets than an installation has.
func (k Key) aead() (cipher.AEAD, error) {
	if k == (Key{}) {
		return nil, errors.New("there is no secret key to seal with")
	}
	block, err := aes.NewCipher(k.expand("seal", keySize))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Reseal returns sealed if it contains the text, else the text encrypted. Encrypting the same text again would look like
// a change. sealed can be empty.
func (k Key) Reseal(sealed, text, context string) (string, error) {
	if sealed != "" {
		was, err := k.Open(sealed, context)
		if err != nil || string(was) == text {
			return sealed, err
		}
	}
	return k.Seal([]byte(text), context)
}
