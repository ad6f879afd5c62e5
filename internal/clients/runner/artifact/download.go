package artifact

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"stackyard/internal/clients/progress"
	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/environ"
)

// A Download downloads files of a build.
type Download struct {
	API  *api.Client
	Dir  string                           // target directory
	Env  environ.Environment              // the job's, with settings of buckets
	Logf func(format string, args ...any) // logs progress

	Terminal *os.File // shows progress if it is a terminal; nil: nothing
}

// Run downloads artifacts. It replaces an existing file only after the whole new file has arrived.
func (d Download) Run(ctx context.Context, found []api.Artifact) error {
	var total int64
	for _, a := range found {
		total += a.Size
	}
	bar := progress.Start(d.Terminal, "Downloading", total)
	defer bar.End()
	return errors.Join(each(found, func(_ int, a api.Artifact) error {
		target := filepath.Join(d.Dir, local(a.Path))
		d.Logf("Downloading %s to %s (%s)", a.Path, target, progress.Size(a.Size))
		if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
			return err
		}
		receive := func(r io.Reader) error { return save(a, bar.Reader(r), target) }
		if !strings.HasPrefix(a.Destination, "s3://") {
			return d.API.ReceiveFile(ctx, a, receive)
		}
		from, err := openBucket(a.Destination, d.Env)
		if err != nil {
			return err
		}
		return from.get(ctx, a.Path, receive)
	})...)
}

// local returns the path of an artifact below the target directory, even if the artifact's path leads outside.
func local(name string) string {
	return filepath.FromSlash(strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/"))
}

// save writes a temporary file beside target, and renames it if the checksum matches.
func save(a api.Artifact, r io.Reader, target string) error {
	name := filepath.Join(filepath.Dir(target), ".download-"+uuid.NewString())
	part, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer os.Remove(name)
	sum, want := checksum(a)
	_, err = io.Copy(io.MultiWriter(part, sum), r)
	if err := errors.Join(err, part.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want != "" && got != want {
		return fmt.Errorf("%s has the checksum %s, want %s", a.Path, got, want)
	}
	return os.Rename(name, target)
}

// checksum returns the strongest checksum that is known for an artifact.
func checksum(a api.Artifact) (hash.Hash, string) {
	if a.SHA256 != "" {
		return sha256.New(), a.SHA256
	}
	return sha1.New(), a.SHA1
}
