// Package artifact sends files of a job to the server, and gets those of a build from it.
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

	"github.com/google/uuid"

	"stackyard/internal/clients/runner/api"
)

// atOnce is how many files are sent or received at a time.
const atOnce = 4

// An Upload sends files of a job.
type Upload struct {
	API         *api.Client
	JobID       string
	Dir         string                           // what paths are relative to
	ContentType string                           // of all files; "": what their names say
	Say         func(format string, args ...any) // tells what is done
}

// Run sends the files that match patterns, which are separated by semicolons. That there are none is not
// a failure.
func (u Upload) Run(ctx context.Context, patterns string) error {
	paths, err := Find(u.Dir, patterns)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		u.Say("No files match %s", patterns)
		return nil
	}
	u.Say("Files that match %s: %d", patterns, len(paths))
	var failures []error
	for batch := range slices.Chunk(paths, api.MaxBatch) {
		failures = append(failures, u.send(ctx, batch))
	}
	return errors.Join(failures...)
}

// send announces files, sends them, and reports what became of each.
func (u Upload) send(ctx context.Context, paths []string) error {
	files := make([]api.Artifact, len(paths))
	for i, path := range paths {
		file, err := u.describe(path)
		if err != nil {
			return err
		}
		files[i] = file
	}
	batch, err := u.API.CreateArtifacts(ctx, u.JobID, uuid.NewString(), files)
	if err != nil {
		return err
	}
	if len(batch.ArtifactIDs) != len(files) {
		return fmt.Errorf("the server answered with %d ids for %d files", len(batch.ArtifactIDs), len(files))
	}
	failures := each(files, func(i int, file api.Artifact) error {
		u.Say("Uploading %s (%s)", file.Path, bytes(file.Size))
		return u.API.SendFile(ctx, batch.Instructions, file, func() (io.ReadCloser, error) { return os.Open(file.AbsolutePath) })
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

// describe reads a file to tell what it is.
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

// name returns what a file is called: its path from the folder, or from the root if it is elsewhere.
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

// each does something with all items, a few at a time, and returns how it went with each.
func each[T any](items []T, do func(i int, item T) error) []error {
	failures := make([]error, len(items))
	free := make(chan struct{}, atOnce)
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

// bytes writes a size as people do.
func bytes(size int64) string {
	const unit = 1024
	if size < unit {
		return fmt.Sprintf("%d B", size)
	}
	value, names := float64(size)/unit, "KMGTPE"
	i := 0
	for ; value >= unit && i < len(names)-1; i++ {
		value /= unit
	}
	return fmt.Sprintf("%.1f %ciB", value, names[i])
}
