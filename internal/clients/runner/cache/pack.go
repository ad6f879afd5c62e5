package cache

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
)

// counts is how much an archive has.
type counts struct{ files, bytes int64 }

// pack writes an archive of files and folders. An entry of the archive is named by the number of its target and the path below it, so that it can be
// unpacked elsewhere. The same files always give the same bytes. Sockets, devices and owners are left out.
func pack(ctx context.Context, to io.Writer, targets []string) (n counts, err error) {
	compressed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return n, err
	}
	archive := tar.NewWriter(compressed)
	for i, target := range targets {
		err := filepath.WalkDir(target, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			name := strconv.Itoa(i)
			if path != target {
				below, err := filepath.Rel(target, path)
				if err != nil {
					return err
				}
				name += "/" + filepath.ToSlash(below)
			}
			return packFile(archive, name, path, &n)
		})
		if err != nil {
			return n, err
		}
	}
	if err := archive.Close(); err != nil {
		return n, err
	}
	return n, compressed.Close()
}

// packFile adds a file, a folder or a link to an archive.
func packFile(archive *tar.Writer, name, path string, n *counts) error {
	about, err := os.Lstat(path)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: int64(about.Mode().Perm()), ModTime: about.ModTime().Truncate(time.Second), Format: tar.FormatPAX}
	switch {
	case about.IsDir():
		header.Typeflag = tar.TypeDir
		return archive.WriteHeader(header)
	case about.Mode()&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = os.Readlink(path); err != nil {
			return err
		}
		return archive.WriteHeader(header)
	case !about.Mode().IsRegular():
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	header.Typeflag, header.Size = tar.TypeReg, about.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	copied, err := io.Copy(archive, io.LimitReader(file, header.Size))
	if err == nil && copied < header.Size {
		err = fmt.Errorf("%s became smaller while it was read", path)
	}
	n.files, n.bytes = n.files+1, n.bytes+copied
	return err
}
