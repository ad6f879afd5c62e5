package artifact

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Find returns the files that match patterns, which are separated by semicolons and relative to dir. It returns
// absolute paths, sorted, without duplicates. "**" matches any number of directories, but does not follow links
// to directories.
func Find(dir, patterns string) ([]string, error) {
	var found []string
	for pattern := range strings.SplitSeq(patterns, ";") {
		pattern = strings.TrimSpace(pattern)
		if pattern == "" {
			continue
		}
		paths, err := find(dir, pattern)
		if err != nil {
			return nil, fmt.Errorf("find files that match %s: %w", pattern, err)
		}
		found = append(found, paths...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func find(dir, pattern string) ([]string, error) {
	base, rest := doublestar.SplitPattern(filepath.ToSlash(pattern))
	base = filepath.FromSlash(base)
	if home, err := os.UserHomeDir(); err == nil && (base == "~" || strings.HasPrefix(base, "~/")) {
		base = home + base[1:]
	}
	if !filepath.IsAbs(base) {
		base = filepath.Join(dir, base)
	}
	if rest == "." || rest == ".." {
		return nil, nil // a directory
	}
	var paths []string
	err := doublestar.GlobWalk(os.DirFS(base), rest, func(path string, _ fs.DirEntry) error {
		path = filepath.Join(base, filepath.FromSlash(path))
		if about, err := os.Stat(path); err == nil && about.Mode().IsRegular() {
			paths = append(paths, path)
		}
		return nil
	}, doublestar.WithNoFollow())
	return paths, err
}
