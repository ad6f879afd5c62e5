package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Lock pins plugins: it maps each source with its version to the checksum of its files. A nil Lock allows all plugins.
type Lock map[string]string

// ParseLock parses a lock file: a line for each plugin with its repository and version, and the checksum. Empty lines
// and those that start with # are ignored.
func ParseLock(text string) (Lock, error) {
	lock := Lock{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 || !strings.HasPrefix(fields[1], sumPrefix) || len(fields[1]) != len(sumPrefix)+2*sha256.Size {
			return nil, fmt.Errorf("line %d: want a plugin and its checksum, such as %q", number, "https://github.com/acme/x-buildkite-plugin#v1 sha256:…")
		}
		if known, ok := lock[fields[0]]; ok && known != fields[1] {
			return nil, fmt.Errorf("line %d: %s is there twice", number, fields[0])
		}
		lock[fields[0]] = fields[1]
	}
	return lock, nil
}

// Line returns the line of a lock file for a plugin.
func (p Plugin) Line(sum string) string { return p.lockName() + " " + sum }

func (p Plugin) lockName() string { return p.Repository() + "#" + p.Version }

// Check returns an error if a plugin is not in the lock, or its files are not those that were pinned.
func (l Lock) Check(p Plugin, dir string) error {
	if l == nil {
		return nil
	}
	want, ok := l[p.lockName()]
	if !ok {
		return fmt.Errorf("the agent's lock file has no %s; add it with \"stackyard tool lock-plugins\"", p.lockName())
	}
	got, err := Sum(dir)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the files have the checksum %s, but the agent's lock file has %s: its version was moved, or the files on this machine were changed", got, want)
	}
	return nil
}

const sumPrefix = "sha256:"

// The limits of a plugin whose checksum is computed.
const (
	maxFiles = 20_000
	maxBytes = 512 << 20
)

var errTooLarge = errors.New("the plugin has too many files, or too large ones")

// Sum returns the checksum of the files in a folder: their paths, contents, links and whether they are executable.
// Git's own folder does not count.
func Sum(dir string) (string, error) {
	sum := sha256.New()
	files, size := 0, int64(0)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		if files++; files > maxFiles {
			return errTooLarge
		}
		n, err := addFile(sum, path, filepath.ToSlash(name), entry)
		if size += n; err == nil && size > maxBytes {
			return errTooLarge
		}
		return err
	})
	return sumPrefix + hex.EncodeToString(sum.Sum(nil)), err
}

// addFile adds a file. Each part is preceded by its length, so that parts cannot be confused.
func addFile(sum hash.Hash, path, name string, entry fs.DirEntry) (size int64, err error) {
	about, err := entry.Info()
	if err != nil {
		return 0, err
	}
	switch {
	case about.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		fmt.Fprintf(sum, "link %d %s %d %s\n", len(name), name, len(target), target)
		return 0, err
	case !about.Mode().IsRegular():
		return 0, fmt.Errorf("%s is neither a file nor a link", name)
	}
	fmt.Fprintf(sum, "file %d %s %t %d\n", len(name), name, about.Mode()&0o111 != 0, about.Size())
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return io.Copy(sum, io.LimitReader(file, maxBytes+1))
}
