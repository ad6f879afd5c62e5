// Package blob keeps bytes by key: in a folder, or in a bucket of an S3-compatible object store. It
// also judges the buckets that organizations name for their build exports.
//
// What is given as text is read in two steps. Reading it (ParseURL, BucketName) finds what is wrong
// without touching a disk or a network, so that all bad settings can be told at once. Check then
// proves access the only sure way, by writing, reading back and deleting a small object.
package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"stackyard/internal/core"
)

// checkTimeout bounds a whole Check: a person waits for its answer.
const checkTimeout = 10 * time.Second

// A Store is a place that keeps bytes.
type Store struct{ objects objects }

// objects is what the kinds of places have in common. Its errors are sentences for a person and say
// what to do; String names the place.
type objects interface {
	fmt.Stringer
	put(ctx context.Context, key string, content []byte) error
	get(ctx context.Context, key string) ([]byte, error)
	remove(ctx context.Context, key string) error
}

// Open returns the store at a URL that ParseURL accepts. A folder that does not exist is made; a
// bucket is not asked yet whether it can be used: see Check.
func Open(rawURL string) (*Store, error) {
	location, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if location.folder != "" {
		folder, err := openFolder(location.folder)
		if err != nil {
			return nil, err
		}
		return &Store{folder}, nil
	}
	bucket, err := openBucket(location.bucket)
	if err != nil {
		return nil, err
	}
	return &Store{bucket}, nil
}

// Check reports whether objects can be written, read and deleted, by doing so with a small one under
// a key that nothing else has. It answers within ten seconds.
func (s *Store) Check(ctx context.Context) error {
	return check(ctx, s.objects)
}

func check(ctx context.Context, objects objects) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	key := "stackyard-check-" + core.NewID()
	content := []byte("Stackyard checks that it can write here; this can be deleted.\n")

	if err := objects.put(ctx, key, content); err != nil {
		return fmt.Errorf("cannot write to %s: %w", objects, err)
	}
	got, readErr := objects.get(ctx, key)
	if readErr == nil && !bytes.Equal(got, content) {
		readErr = errors.New("it gave back other bytes than were written")
	}
	removeErr := objects.remove(ctx, key) // also when reading failed: leave nothing behind
	if readErr != nil {
		return fmt.Errorf("cannot read from %s: %w", objects, readErr)
	}
	if removeErr != nil {
		return fmt.Errorf("cannot delete from %s: %w", objects, removeErr)
	}
	return nil
}
