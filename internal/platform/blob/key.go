package blob

import (
	"fmt"
	"strings"
)

const (
	maxKey     = 900 // bytes; object stores allow 1,024, including the store's own prefix
	maxSegment = 200 // bytes; file systems allow 255
)

// checkKey reports whether a text can be a key, or a prefix of keys: segments of letters, digits, dots, dashes
// and underscores with slashes between them. A segment does not start with a dot, so no key leads out of the
// store, and names with a leading dot are free for the store's own use.
func checkKey(key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("blob: a key of %d bytes is too long", len(key))
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment[0] == '.' || len(segment) > maxSegment || strings.ContainsFunc(segment, foreign) {
			return fmt.Errorf("blob: %q is not a key", key)
		}
	}
	return nil
}

func foreign(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return r != '.' && r != '-' && r != '_'
}
