// Package cache saves folders of a job on the server, and restores them in later jobs.
//
// The files become a compressed archive in a temporary file (pack.go), which is uploaded in pieces that the server finds by their
// checksums: it asks only for those that it does not have. A download is verified piece by piece before any file is written (unpack.go).
// A file in the repository can describe caches (config.go).
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"stackyard/internal/clients/progress"
	"stackyard/internal/clients/runner/api"
)

const (
	// pieceSize is the size of all pieces but the last.
	pieceSize = 64 << 20
	// transfers is the number of concurrent uploads.
	transfers   = 4
	compression = "zstd"
)

// A Cache is the cache of a job's pipeline.
type Cache struct {
	API      *api.Client
	Registry api.CacheRegistry
	Dir      string                           // paths are relative to it
	Home     string                           // what ~ stands for
	Terminal *os.File                         // for progress
	Logf     func(format string, args ...any) // logs what happens
}

// An Entry is what is saved or restored together.
type Entry struct {
	Key         []api.CachePart
	Paths       []string
	RestoreKeys []string
}

func (e Entry) address() api.CacheAddress {
	return api.CacheAddress{Paths: e.Paths, Key: e.Key, RestoreKeys: e.RestoreKeys}
}

// name returns the key for people.
func (e Entry) name() string { return keyText(e.Key) }

func keyText(parts []api.CachePart) string {
	var values []string
	for _, part := range parts {
		values = append(values, part.Value)
	}
	return strings.Join(values, " ")
}

// Save saves an entry, unless there is one with its key.
func (c *Cache) Save(ctx context.Context, e Entry) error {
	targets, err := c.resolve(e.Paths)
	if err != nil {
		return err
	}
	has, err := c.Registry.Has(ctx, e.address())
	if err != nil {
		return err
	}
	if has {
		c.Logf("The cache %s exists already", e.name())
		return nil
	}
	archive, err := os.CreateTemp("", "stackyard-cache-")
	if err != nil {
		return err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	pieces := &splitter{to: archive, size: pieceSize}
	packed, err := pack(ctx, pieces, targets)
	if err != nil {
		return fmt.Errorf("pack the cache %s: %w", e.name(), err)
	}
	blobs := pieces.end()
	c.Logf("Saving the cache %s: %d files, %s, compressed %s", e.name(), packed.files, progress.Size(packed.bytes), progress.Size(pieces.total))
	up, exists, err := c.Registry.Begin(ctx, e.address(), blobs)
	if err != nil {
		return err
	}
	if exists {
		c.Logf("Another job has saved the cache %s meanwhile", e.name())
		return nil
	}
	if err := c.send(ctx, archive, blobs, up.URLs); err != nil {
		return err
	}
	message, err := c.Registry.Commit(ctx, up.ID)
	if err == nil {
		c.Logf("%s: %s", e.name(), message)
	}
	return err
}

// send uploads the pieces that the server asks for.
func (c *Cache) send(ctx context.Context, archive io.ReaderAt, blobs []api.CacheBlob, urls []string) error {
	if len(urls) != len(blobs) {
		return fmt.Errorf("the server returned %d URLs for %d pieces", len(urls), len(blobs))
	}
	var total int64
	for i, url := range urls {
		if url != "" {
			total += blobs[i].Size
		}
	}
	bar := progress.Start(c.Terminal, "Uploading", total)
	defer bar.End()
	failures := make([]error, len(blobs))
	free := make(chan struct{}, transfers)
	var all sync.WaitGroup
	for i, url := range urls {
		if url == "" {
			continue
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			failures[i] = c.API.SendBytes(ctx, fmt.Sprintf("piece %d of the cache", i+1), url, blobs[i].Size, func() io.Reader {
				return bar.Reader(io.NewSectionReader(archive, int64(i)*pieceSize, blobs[i].Size))
			})
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// errDamaged is the error of a cache whose bytes are not those that were saved.
var errDamaged = errors.New("the bytes of the cache are missing or damaged")

// Restore restores an entry, or one with a similar key, and reports whether there was one. A damaged entry counts as none, and is removed if the job
// could have saved it, so that it can be saved again.
func (c *Cache) Restore(ctx context.Context, e Entry) (bool, error) {
	targets, err := c.resolve(e.Paths)
	if err != nil {
		return false, err
	}
	found, ok, err := c.Registry.Find(ctx, e.address())
	if err != nil {
		return false, err
	}
	if !ok {
		c.Logf("There is no cache %s", e.name())
		return false, nil
	}
	if len(found.URLs) != len(found.Blobs) {
		return false, fmt.Errorf("the server returned %d URLs for %d pieces", len(found.URLs), len(found.Blobs))
	}
	archive, err := os.CreateTemp("", "stackyard-cache-")
	if err != nil {
		return false, err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	err = c.receive(ctx, archive, found)
	if err == nil {
		_, err = archive.Seek(0, io.SeekStart)
	}
	if errors.Is(err, errDamaged) {
		c.Logf("%v; continuing without it", err)
		return false, c.Registry.Expire(ctx, api.CacheAddress{Paths: e.Paths, Key: found.Key})
	}
	if err != nil {
		return false, err
	}
	unpacked, err := unpack(ctx, archive, targets)
	if err != nil {
		return false, fmt.Errorf("unpack the cache %s: %w", keyText(found.Key), err)
	}
	how := ""
	if found.Fallback {
		how = " instead of " + e.name()
	}
	c.Logf("Restored the cache %s%s (%s): %d files, %s", keyText(found.Key), how, found.Scope, unpacked.files, progress.Size(unpacked.bytes))
	return true, nil
}

// receive downloads and verifies the pieces of an entry.
func (c *Cache) receive(ctx context.Context, to *os.File, e api.CacheEntry) error {
	var total, at int64
	for _, b := range e.Blobs {
		total += b.Size
	}
	bar := progress.Start(c.Terminal, "Downloading", total)
	defer bar.End()
	for i, b := range e.Blobs {
		what := api.Artifact{URL: e.URLs[i], Path: fmt.Sprintf("piece %d of the cache", i+1)}
		err := c.API.ReceiveFile(ctx, what, func(r io.Reader) error {
			sum := sha256.New()
			n, err := io.Copy(io.NewOffsetWriter(to, at), io.TeeReader(bar.Reader(io.LimitReader(r, b.Size+1)), sum))
			if err == nil && (n != b.Size || b.Digest.Algorithm != "sha256" || hex.EncodeToString(sum.Sum(nil)) != b.Digest.Value) {
				err = errDamaged
			}
			return err
		})
		if api.StatusOf(err) == 404 {
			err = errDamaged
		}
		if err != nil {
			return err
		}
		at += b.Size
	}
	return nil
}

// resolve returns the absolute paths of an entry's paths.
func (c *Cache) resolve(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, errors.New("a cache needs at least one path")
	}
	targets := make([]string, len(paths))
	for i, path := range paths {
		full := filepath.FromSlash(path)
		if rest, ok := strings.CutPrefix(full, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
			full = filepath.Join(c.Home, rest)
		} else if !filepath.IsAbs(full) {
			full = filepath.Join(c.Dir, full)
		}
		full = filepath.Clean(full)
		for _, whole := range []string{c.Dir, c.Home} {
			if full == whole || strings.HasPrefix(whole, strings.TrimSuffix(full, string(filepath.Separator))+string(filepath.Separator)) {
				return nil, fmt.Errorf("%s has the whole working directory or home in it; name folders inside instead", path)
			}
		}
		for _, other := range targets[:i] {
			if full == other || strings.HasPrefix(full+"/", other+"/") || strings.HasPrefix(other+"/", full+"/") {
				return nil, fmt.Errorf("the path %s is inside another one of the cache, or has it inside", path)
			}
		}
		targets[i] = full
	}
	return targets, nil
}

// A splitter writes to a file and computes the checksums of its pieces.
type splitter struct {
	to    io.Writer
	size  int64 // of a piece
	total int64
	sum   interface {
		io.Writer
		Sum([]byte) []byte
	}
	inPiece int64
	blobs   []api.CacheBlob
}

func (s *splitter) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	for rest := p[:n]; len(rest) > 0; {
		if s.sum == nil {
			s.sum = sha256.New()
		}
		part := rest[:min(int64(len(rest)), s.size-s.inPiece)]
		s.sum.Write(part)
		s.inPiece += int64(len(part))
		s.total += int64(len(part))
		if s.inPiece == s.size {
			s.endPiece()
		}
		rest = rest[len(part):]
	}
	return n, err
}

func (s *splitter) endPiece() {
	s.blobs = append(s.blobs, api.CacheBlob{
		Digest: api.CacheDigest{Algorithm: "sha256", Value: hex.EncodeToString(s.sum.Sum(nil))}, Size: s.inPiece, Compression: compression,
	})
	s.sum, s.inPiece = nil, 0
}

// end returns the pieces.
func (s *splitter) end() []api.CacheBlob {
	if s.sum != nil {
		s.endPiece()
	}
	return s.blobs
}
