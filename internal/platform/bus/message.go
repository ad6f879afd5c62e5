package bus

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"

	"stackyard/internal/platform/db"
)

// A message is the sender's identity and some keys, eight bytes each, in base64.
var encoding = base64.RawStdEncoding

const keySize = 8

var errLength = errors.New("its length is not that of an identity and keys")

// maxKeys is how many keys fit into one message besides the identity.
var maxKeys = encoding.DecodedLen(db.MaxMessage)/keySize - 1

func newIdentity() key { return key(rand.Uint64()) }

func encode(identity key, keys []key) string {
	bytes := make([]byte, 0, keySize*(1+len(keys)))
	bytes = binary.BigEndian.AppendUint64(bytes, uint64(identity))
	for _, k := range keys {
		bytes = binary.BigEndian.AppendUint64(bytes, uint64(k))
	}
	return encoding.EncodeToString(bytes)
}

// decode returns the identity and the keys of a message.
func decode(message string) ([]key, error) {
	bytes, err := encoding.DecodeString(message)
	if err != nil {
		return nil, err
	}
	keys := make([]key, 0, len(bytes)/keySize)
	for k := range slices.Chunk(bytes, keySize) {
		if len(k) < keySize {
			return nil, errLength
		}
		keys = append(keys, key(binary.BigEndian.Uint64(k)))
	}
	if len(keys) == 0 {
		return nil, errLength
	}
	return keys, nil
}
