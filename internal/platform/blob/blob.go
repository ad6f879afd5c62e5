// Package blob keeps bytes by key: in a folder, or in a bucket of an S3-compatible object store. It
// also judges the buckets that organizations name for their build exports.
//
// An object is there whole or not at all, and durable once [Store.Put] has returned. Keys are paths of
// ids and plain names; what belongs together stands below one prefix, so that [Store.DeleteAll] removes
// it together. What grows, such as the log of a running job, is kept in pieces (pieces.go) until it is
// complete and becomes an object. No key is also the prefix of others. Nothing here knows what the bytes are.
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
	"io"
	"iter"
	"strings"
	"time"

	"stackyard/internal/platform/core"
)

// checkTimeout bounds a whole Check: a person waits for its answer.
const checkTimeout = 10 * time.Second

// ErrNotFound is what reading an object that is not there returns.
var ErrNotFound = errors.New("there is no such object")

// A Store is a place that keeps bytes. It is safe for concurrent use.
type Store struct{ objects objects }

// objects is what the kinds of places have in common. Its errors are sentences for a person and say
// what to do; String names the place. Keys and prefixes were checked before.
type objects interface {
	fmt.Stringer
	put(ctx context.Context, key string, from io.Reader, size int64) error
	open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	size(ctx context.Context, key string) (int64, error)
	remove(ctx context.Context, key string) error
	removeAll(ctx context.Context, prefix string) error
	list(ctx context.Context, prefix string, yield func(Object) bool) error

	addPiece(ctx context.Context, key string, offset int64, content []byte) error
	pieces(ctx context.Context, key string, from, to int64) ([]Piece, error)
	readPiece(ctx context.Context, key string, p Piece) ([]byte, error)
	removePieces(ctx context.Context, key string, pieces []Piece) error
	joinPieces(ctx context.Context, key string, from, to int64) error
}

// An Object is what a listing tells of one.
type Object struct {
	Key  string
	Size int64
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

// Check reports whether objects can be written, read, deleted and listed, by doing so with a small one
// under a key that nothing else has. It answers within ten seconds.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := check(ctx, s.objects); err != nil {
		return err
	}
	for _, err := range s.List(ctx, "stackyard-check") {
		if err != nil {
			return fmt.Errorf("cannot list what is in %s: %w", s.objects, err)
		}
	}
	return nil
}

func check(ctx context.Context, objects objects) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	key := "stackyard-check-" + core.NewID()
	written := []byte("Stackyard checks that it can write here; this can be deleted.\n")

	if err := objects.put(ctx, key, bytes.NewReader(written), int64(len(written))); err != nil {
		return fmt.Errorf("cannot write to %s: %w", objects, err)
	}
	got, readErr := readAll(ctx, objects, key)
	if readErr == nil && !bytes.Equal(got, written) {
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

func readAll(ctx context.Context, objects objects, key string) ([]byte, error) {
	content, err := objects.open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}

// String names the place.
func (s *Store) String() string { return s.objects.String() }

// Folder returns the folder that objects are in; "" when they are in a bucket.
func (s *Store) Folder() string {
	if f, ok := s.objects.(*folder); ok {
		return f.dir
	}
	return ""
}

// Put keeps what is read from a reader under a key, in the place of what was there. It is durable when Put
// returns; nobody ever reads a part of it, and nothing of it is kept when reading fails. size is how
// many bytes there must be, or -1 where that is not known.
func (s *Store) Put(ctx context.Context, key string, from io.Reader, size int64) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := s.objects.put(ctx, key, &content{from: from, size: size}, size); err != nil {
		return fmt.Errorf("write %s to %s: %w", key, s.objects, err)
	}
	return nil
}

// Open reads a range of an object, whose length may be -1 for all that follows. What lies beyond the
// end of the object is left out. The caller closes it. An object that is not there is ErrNotFound; one
// that is deleted or replaced meanwhile may fail, but never gives bytes of two.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if length == 0 {
		if _, err := s.Size(ctx, key); err != nil {
			return nil, err
		}
		return io.NopCloser(strings.NewReader("")), nil // which cannot be asked of a bucket
	}
	content, err := s.objects.open(ctx, key, offset, length)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", key, s.objects, err)
	}
	return content, nil
}

// Size returns how many bytes an object has, or ErrNotFound.
func (s *Store) Size(ctx context.Context, key string) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	size, err := s.objects.size(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("read the size of %s of %s: %w", key, s.objects, err)
	}
	return size, nil
}

// Delete deletes an object. One that is not there is deleted already.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := s.objects.remove(ctx, key); err != nil {
		return fmt.Errorf("delete %s of %s: %w", key, s.objects, err)
	}
	return nil
}

// DeleteAll deletes every object whose key begins with a prefix and a slash.
func (s *Store) DeleteAll(ctx context.Context, prefix string) error {
	if err := checkKey(prefix); err != nil {
		return err
	}
	if err := s.objects.removeAll(ctx, prefix); err != nil {
		return fmt.Errorf("delete all below %s of %s: %w", prefix, s.objects, err)
	}
	return nil
}

// List yields the objects whose keys begin with a prefix and a slash, in the order of their keys. An
// error comes last. Objects that are written or deleted meanwhile may be there or not.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := checkKey(prefix); err != nil {
			yield(Object{}, err)
			return
		}
		err := s.objects.list(ctx, prefix, func(o Object) bool { return yield(o, nil) })
		if err != nil {
			yield(Object{}, fmt.Errorf("list %s of %s: %w", prefix, s.objects, err))
		}
	}
}
