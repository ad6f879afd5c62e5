package cache

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// The limits of what is unpacked, and of the decompressor's memory.
const (
	maxBytes   = 200 << 30
	maxEntries = 5_000_000
	maxName    = 4096
	maxWindow  = 64 << 20
)

// unpack writes the files of an archive to targets. Files that exist are replaced, others stay. Nothing is written outside of the
// targets, whatever the archive has: each is opened once, and links are not followed out of it.
func unpack(ctx context.Context, from io.Reader, targets []string) (n counts, err error) {
	plain, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return n, err
	}
	defer plain.Close()
	u := &unpacker{targets: targets, roots: map[int]*os.Root{}, seen: map[int]bool{}}
	defer u.close()
	archive := tar.NewReader(plain)
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		if err == io.EOF {
			return u.counts, u.setModes()
		}
		if err != nil {
			return u.counts, err
		}
		if entries >= maxEntries || u.bytes+header.Size > maxBytes {
			return u.counts, errors.New("the archive is too large")
		}
		if err := ctx.Err(); err != nil {
			return u.counts, err
		}
		if err := u.entry(header, archive); err != nil {
			return u.counts, err
		}
	}
}

// An unpacker writes the entries of an archive.
type unpacker struct {
	counts
	targets []string
	seen    map[int]bool     // targets whose own entry came
	roots   map[int]*os.Root // of targets that are folders
	modes   []func() error   // set the modes of folders, which may be read-only
}

func (u *unpacker) close() {
	for _, root := range u.roots {
		root.Close()
	}
}

// setModes sets the modes of folders, the inner ones first.
func (u *unpacker) setModes() error {
	for _, set := range slices.Backward(u.modes) {
		if err := set(); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	number, below, isBelow := strings.Cut(strings.TrimSuffix(header.Name, "/"), "/")
	target, err := strconv.Atoi(number)
	if err != nil || target < 0 || target >= len(u.targets) || strconv.Itoa(target) != number || len(header.Name) > maxName ||
		isBelow && (!filepath.IsLocal(filepath.FromSlash(below)) || path.Clean(below) != below) {
		return fmt.Errorf("the archive has an entry with the invalid name %.100q", header.Name)
	}
	if isBelow {
		root := u.roots[target]
		if root == nil {
			return fmt.Errorf("the archive has the entry %.100q, whose folder is missing", header.Name)
		}
		return u.write(root, filepath.FromSlash(below), header, content)
	}
	if u.seen[target] {
		return fmt.Errorf("the archive has the entry %.100q twice", header.Name)
	}
	u.seen[target] = true
	return u.writeTarget(target, header, content)
}

// writeTarget writes the entry of a target itself.
func (u *unpacker) writeTarget(target int, header *tar.Header, content io.Reader) error {
	at := u.targets[target]
	if header.Typeflag != tar.TypeDir {
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			return err
		}
		parent, err := os.OpenRoot(filepath.Dir(at))
		if err != nil {
			return err
		}
		defer parent.Close()
		return u.write(parent, filepath.Base(at), header, content)
	}
	if err := os.MkdirAll(at, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	u.roots[target] = root
	return nil
}

// write writes a file, a folder or a link below a root.
func (u *unpacker) write(root *os.Root, name string, header *tar.Header, content io.Reader) error {
	mode := fs.FileMode(header.Mode).Perm()
	was, err := root.Lstat(name)
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if header.Typeflag == tar.TypeDir {
		if exists && !was.IsDir() {
			if err := root.Remove(name); err != nil {
				return err
			}
			exists = false
		}
		if !exists {
			if err := root.Mkdir(name, 0o700|mode); err != nil {
				return err
			}
		} else if err := root.Chmod(name, 0o700|mode); err != nil {
			return err
		}
		u.modes = append(u.modes, func() error { return root.Chmod(name, mode) })
		return nil
	}
	if exists {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
		return u.writeFile(root, name, mode, header, content)
	}
	return fmt.Errorf("the archive has the entry %.100q of the unknown type %q", header.Name, header.Typeflag)
}

func (u *unpacker) writeFile(root *os.Root, name string, mode fs.FileMode, header *tar.Header, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, content)
	u.files, u.bytes = u.files+1, u.bytes+n
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := root.Chmod(name, mode); err != nil {
		return err
	}
	return root.Chtimes(name, header.ModTime, header.ModTime)
}
