package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// folder stores each object in a file whose path is the key. An object is written to a temporary file beside
// its own whose name starts with a dot, made durable, and then renamed, so that it exists completely or not at
// all.
type folder struct {
	dir      string
	journals journals
	syncs    atomic.Int64 // files and folders made durable
}

func openFolder(path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the folder for blobs: %w", err)
	}
	return &folder{dir: path, journals: newJournals()}, nil
}

func (f *folder) String() string { return folderName(f.dir) }

func folderName(path string) string { return "the folder " + path }

func (f *folder) path(key string) string { return filepath.Join(f.dir, filepath.FromSlash(key)) }

func (f *folder) put(_ context.Context, key string, from io.Reader, _ int64) error {
	path := f.path(key)
	part, err := f.createBeside(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(part, from)
	if err == nil {
		err = f.sync(part)
	}
	if err := errors.Join(err, part.Close()); err != nil {
		os.Remove(part.Name())
		return err
	}
	if err := os.Rename(part.Name(), path); err != nil {
		os.Remove(part.Name())
		return err
	}
	return f.syncFolder(filepath.Dir(path))
}

// createBeside creates a temporary file in the folder of path, and that folder if it is missing.
func (f *folder) createBeside(path string) (*os.File, error) {
	dir := filepath.Dir(path)
	for tries := folderTries; ; tries-- {
		part, err := os.CreateTemp(dir, ".part-*")
		if tries == 0 || !errors.Is(err, fs.ErrNotExist) {
			return part, err
		}
		// The folder may be removed right away, by the deletion of its last object.
		if err := f.makeFolders(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// folderTries is how often a folder is created that others remove as empty before it has a file. Each removal
// follows the deletion of another object, so this many do not happen in practice.
const folderTries = 1000

// makeFolders creates the missing folders down to dir, and makes them durable. The store's own folder must
// exist: if it does not, a disk may not be mounted.
func (f *folder) makeFolders(dir string) error {
	if dir == f.dir {
		_, err := os.Stat(dir)
		return err
	}
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		return f.syncFolder(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := f.makeFolders(filepath.Dir(dir)); err != nil {
		return err
	}
	return f.makeFolders(dir)
}

// sync makes a file durable.
func (f *folder) sync(file *os.File) error {
	f.syncs.Add(1)
	return file.Sync()
}

// syncFolder makes the names in a folder durable. A folder that was removed meanwhile has none.
func (f *folder) syncFolder(path string) error {
	dir, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.sync(dir), dir.Close())
}

func (f *folder) open(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, absent(err)
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if length < 0 {
		return file, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(file, length), file}, nil
}

func (f *folder) size(_ context.Context, key string) (int64, error) {
	stat, err := os.Stat(f.path(key))
	if err != nil {
		return 0, absent(err)
	}
	if stat.IsDir() {
		return 0, ErrNotFound
	}
	return stat.Size(), nil
}

func (f *folder) remove(_ context.Context, key string) error {
	path := f.path(key)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.prune(filepath.Dir(path))
	return nil
}

func (f *folder) removeAll(_ context.Context, prefix string) error {
	path := f.path(prefix)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	f.prune(filepath.Dir(path))
	return nil
}

// prune removes an empty folder, and then its empty parents.
func (f *folder) prune(dir string) {
	for dir != f.dir && os.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
}

// list lists the folder in the order of keys, in which a/b comes after a-b: the slash counts.
func (f *folder) list(ctx context.Context, prefix string, yield func(Object) bool) error {
	_, err := f.walk(ctx, prefix, yield)
	return err
}

func (f *folder) walk(ctx context.Context, prefix string, yield func(Object) bool) (goOn bool, err error) {
	entries, err := os.ReadDir(f.path(prefix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		key := path.Join(prefix, entry.Name())
		if entry.IsDir() {
			if goOn, err := f.walk(ctx, key, yield); err != nil || !goOn {
				return false, err
			}
			continue
		}
		stat, err := entry.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(entry.Name(), "."):
			continue // deleted meanwhile, or not an object
		case err != nil:
			return false, err
		case !yield(Object{Key: key, Size: stat.Size(), Modified: stat.ModTime().UTC()}):
			return false, nil
		}
	}
	return true, nil
}

func sortName(entry fs.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	return err
}
