// Package artifact uploads files of a job to the server, and downloads files of a build.
package artifact

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"stackyard/internal/clients/progress"
	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/environ"
)

// transfers is the number of concurrent uploads or downloads.
const transfers = 4

// An Upload uploads files of a job.
type Upload struct {
	API         *api.Client
	JobID       string
	Dir         string                           // paths are relative to it
	ContentType string                           // of all files; "": what their names say
	Destination string                           // a bucket of the agent's own, as s3://bucket/folder; "": the server
	Env         environ.Environment              // the job's, with settings of the bucket
	Terminal    *os.File                         // shows progress if it is a terminal; nil: nothing
	Logf        func(format string, args ...any) // logs progress
}

// Run uploads the files that match patterns, which are separated by semicolons. Having none is not an error.
func (u Upload) Run(ctx context.Context, patterns string) error {
	paths, err := Find(u.Dir, patterns)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		u.Logf("No files match %s", patterns)
		return nil
	}
	u.Logf("Files that match %s: %d", patterns, len(paths))
	var to *bucket
	if u.Destination != "" {
		if to, err = openBucket(u.Destination, u.Env); err != nil {
			return err
		}
	}
	var failures []error
	for batch := range slices.Chunk(paths, api.MaxBatch) {
		failures = append(failures, u.send(ctx, batch, to))
	}
	return errors.Join(failures...)
}

// send creates artifacts, uploads their files to the bucket or else to the server, and reports the state of each.
func (u Upload) send(ctx context.Context, paths []string, to *bucket) error {
	files := make([]api.Artifact, len(paths))
	for i, path := range paths {
		file, err := u.describe(path)
		if err != nil {
			return err
		}
		if to != nil {
			file.URL = to.url(file.Path)
		}
		files[i] = file
	}
	batch, err := u.API.CreateArtifacts(ctx, u.JobID, uuid.NewString(), u.Destination, files)
	if err != nil {
		return err
	}
	if len(batch.ArtifactIDs) != len(files) {
		return fmt.Errorf("the server returned %d ids for %d files", len(batch.ArtifactIDs), len(files))
	}
	var total int64
	for _, file := range files {
		total += file.Size
	}
	bar := progress.Start(u.Terminal, "Uploading", total)
	defer bar.End()
	var unreachable atomic.Bool // the bucket of the server
	failures := each(files, func(i int, file api.Artifact) error {
		u.Logf("Uploading %s (%s)", file.Path, progress.Size(file.Size))
		if to != nil {
			defer bar.Add(file.Size)
			return to.put(ctx, file)
		}
		open := func() (io.ReadCloser, error) { return openCounted(file.AbsolutePath, bar) }
		if direct, ok := batch.Direct[batch.ArtifactIDs[i]]; ok && !unreachable.Load() {
			err := u.API.SendDirect(ctx, direct, file, open)
			if err == nil || ctx.Err() != nil {
				return err
			}
			unreachable.Store(true)
			u.Logf("The bucket of the server cannot be used (%v); uploading through the server", err)
		}
		return u.API.SendFile(ctx, batch.Instructions, file, open)
	})
	states := make([]api.ArtifactState, len(files))
	for i, id := range batch.ArtifactIDs {
		states[i] = api.ArtifactState{ID: id, State: "finished"}
		if failures[i] != nil {
			states[i].State = "error"
		}
	}
	return errors.Join(append(failures, u.API.UpdateArtifacts(ctx, u.JobID, states))...)
}

// openCounted opens a file whose reading moves a bar.
func openCounted(path string, bar *progress.Bar) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{bar.Reader(file), file}, nil
}

// describe reads a file and returns its artifact.
func (u Upload) describe(path string) (api.Artifact, error) {
	file, err := os.Open(path)
	if err != nil {
		return api.Artifact{}, err
	}
	defer file.Close()
	one, two := sha1.New(), sha256.New()
	size, err := io.Copy(io.MultiWriter(one, two), file)
	if err != nil {
		return api.Artifact{}, fmt.Errorf("read %s: %w", path, err)
	}
	return api.Artifact{
		Path:         u.name(path),
		AbsolutePath: path,
		Size:         size,
		SHA1:         hex.EncodeToString(one.Sum(nil)),
		SHA256:       hex.EncodeToString(two.Sum(nil)),
		ContentType:  u.contentType(path),
	}, nil
}

// name returns the path of a file relative to Dir, or from the root if it is outside.
func (u Upload) name(path string) string {
	if short, err := filepath.Rel(u.Dir, path); err == nil && filepath.IsLocal(short) {
		return filepath.ToSlash(short)
	}
	return filepath.ToSlash(path)[1:]
}

func (u Upload) contentType(path string) string {
	if u.ContentType != "" {
		return u.ContentType
	}
	if known := mime.TypeByExtension(filepath.Ext(path)); known != "" {
		return known
	}
	return "application/octet-stream"
}

// each calls do for all items, a few at a time, and returns the error of each.
func each[T any](items []T, do func(i int, item T) error) []error {
	failures := make([]error, len(items))
	free := make(chan struct{}, transfers)
	var all sync.WaitGroup
	for i, item := range items {
		free <- struct{}{}
		all.Go(func() {
			failures[i] = do(i, item)
			<-free
		})
	}
	all.Wait()
	return failures
}
