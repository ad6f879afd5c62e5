// Package blob stores bytes by key: in a folder, or in a bucket of an S3-compatible object store. It also
// checks the buckets that organizations name for their build exports.
//
// An object exists completely or not at all, and is durable once [Store.Put] has returned. Keys are paths of
// ids and plain names; related objects share a prefix, so that [Store.DeleteAll] removes them together. Growing
// content, for example the log of a running job, is stored in pieces (pieces.go) until it is complete and
// becomes an object. No key is also the prefix of others. The package does not interpret the bytes.
//
// Settings are checked in two steps. Parsing (ParseURL, BucketName) finds errors without touching a disk or a
// network, so that all bad settings can be reported at once. Check then proves access the only reliable way: it
// writes, reads back and deletes a small object.
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

// checkTimeout bounds a whole Check: a person waits for it.
const checkTimeout = 10 * time.Second

// ErrNotFound is the error of reading an object that does not exist.
var ErrNotFound = errors.New("there is no such object")

// A Store stores objects. It is safe for concurrent use.
type Store struct{ objects objects }

// objects is what folders and buckets implement. Its errors are messages for a person and say what to do;
// String names the place. Keys and prefixes have been checked.
type objects interface {
	fmt.Stringer
	put(ctx context.Context, key string, from io.Reader, size int64) error
	open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	size(ctx context.Context, key string) (int64, error)
	remove(ctx context.Context, key string) error
	removeAll(ctx context.Context, prefix string) error
	list(ctx context.Context, prefix string, yield func(Object) bool) error // of all objects when prefix is ""

	addPiece(ctx context.Context, key string, offset int64, content []byte) error
	pieces(ctx context.Context, key string, from, to int64) ([]Piece, error)
	readPiece(ctx context.Context, key string, p Piece) ([]byte, error)
	removePieces(ctx context.Context, key string, pieces []Piece) error
	joinPieces(ctx context.Context, key string, from, to int64) error
}

// An Object is an entry of a listing.
type Object struct {
	Key      string
	Size     int64
	Modified time.Time // when it was written
}

// Open returns the store at a URL that ParseURL accepts. It creates a missing folder; it does not check whether
// a bucket can be used: see Check.
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

// Check reports whether objects can be written, read, deleted and listed, by doing so with a small one under a
// unique key. It returns within ten seconds.
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
		readErr = errors.New("it returned other bytes than were written")
	}
	removeErr := objects.remove(ctx, key) // also when reading failed
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

// Syncs returns how many files and folders were made durable; 0 when the objects are in a bucket.
func (s *Store) Syncs() int64 {
	if f, ok := s.objects.(*folder); ok {
		return f.syncs.Load()
	}
	return 0
}

// Folder returns the folder of the objects; "" when they are in a bucket.
func (s *Store) Folder() string {
	if f, ok := s.objects.(*folder); ok {
		return f.dir
	}
	return ""
}

// Put stores the content of a reader under a key, and replaces an existing object. It is durable when Put
// returns; readers never see a part of it, and nothing is stored when reading fails. size is the required
// number of bytes, or -1 when unknown.
func (s *Store) Put(ctx context.Context, key string, from io.Reader, size int64) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := s.objects.put(ctx, key, &content{from: from, size: size}, size); err != nil {
		return fmt.Errorf("write %s to %s: %w", key, s.objects, err)
	}
	return nil
}

// Open reads a range of an object; length -1 means up to the end. A range beyond the end of the object is cut.
// The caller closes it. A missing object is ErrNotFound; one that is deleted or replaced meanwhile can fail,
// but never returns bytes of two.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if length == 0 {
		if _, err := s.Size(ctx, key); err != nil {
			return nil, err
		}
		return io.NopCloser(strings.NewReader("")), nil // a bucket cannot return an empty range
	}
	content, err := s.objects.open(ctx, key, offset, length)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", key, s.objects, err)
	}
	return content, nil
}

// Size returns the number of bytes of an object, or ErrNotFound.
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

// Delete deletes an object. Deleting a missing object is no error.
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

// All yields all objects, journals and pieces included, in the order of their keys, as List does.
func (s *Store) All(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := s.objects.list(ctx, "", func(o Object) bool { return yield(o, nil) }); err != nil {
			yield(Object{}, fmt.Errorf("list %s: %w", s.objects, err))
		}
	}
}

// List yields the objects whose keys begin with a prefix and a slash, in the order of their keys. An error
// comes last. Objects that are written or deleted meanwhile may be included or not.
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
