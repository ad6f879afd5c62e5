package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"go.yaml.in/yaml/v3"

	"stackyard/internal/clients/runner/api"
	"stackyard/internal/clients/runner/artifact"
	"stackyard/internal/clients/runner/environ"
)

// Files are where the caches of a repository are described. Published agents read the last two.
var Files = []string{".stackyard/cache.yml", ".buildkite/cache.yml", ".buildkite/cache.yaml"}

// A description is a cache in a file.
type description struct {
	Name  string    `yaml:"name"`
	Key   []keyPart `yaml:"cache_key"`
	Paths []string  `yaml:"target_paths"`
}

// A keyPart is a part of a key: a text, or where it comes from.
type keyPart struct {
	Text          string
	Agent         string   `yaml:"agent"`
	Env           string   `yaml:"env"`
	Checksum      patterns `yaml:"checksum"`
	FallbackLimit bool     `yaml:"fallback_limit"`
}

func (p *keyPart) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return node.Decode(&p.Text)
	}
	type plain keyPart
	return node.Decode((*plain)(p))
}

// patterns is one pattern or a list of them.
type patterns []string

func (p *patterns) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*p = []string{node.Value}
		return nil
	}
	return node.Decode((*[]string)(p))
}

// maxFile limits the size of a file with caches.
const maxFile = 1 << 20

// Read returns the caches of a file that have one of the names, or all of them. Without a file it reads the one of [Files] that exists.
func Read(file string, names []string, dir string, env environ.Environment) ([]Entry, error) {
	text, err := readFile(file, dir)
	if err != nil {
		return nil, err
	}
	var content struct {
		Caches []description `yaml:"caches"`
	}
	if err := yaml.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("the file with the caches cannot be read: %w", err)
	}
	var entries []Entry
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var known []string
	for _, d := range content.Caches {
		known = append(known, d.Name)
		if len(names) > 0 && !wanted[d.Name] {
			continue
		}
		delete(wanted, d.Name)
		e, err := d.entry(dir, env)
		if err != nil {
			return nil, fmt.Errorf("cache %q: %w", d.Name, err)
		}
		entries = append(entries, e)
	}
	for _, name := range names {
		if wanted[name] {
			return nil, fmt.Errorf("there is no cache %q; the file has %s", name, strings.Join(known, ", "))
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("the file has no caches")
	}
	return entries, nil
}

func readFile(file, dir string) ([]byte, error) {
	candidates := Files
	if file != "" {
		candidates = []string{file}
	}
	for _, name := range candidates {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, filepath.FromSlash(name))
		}
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) && file == "" {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
		if err == nil && len(text) > maxFile {
			err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
		}
		return text, err
	}
	return nil, fmt.Errorf("missing arguments KEY and PATH; without them, caches are described in %s", strings.Join(Files, ", "))
}

// entry returns the entry that is described.
func (d description) entry(dir string, env environ.Environment) (e Entry, err error) {
	limit := len(d.Key) - 1
	for i, part := range d.Key {
		if part.FallbackLimit {
			limit = i
			break
		}
	}
	for i, part := range d.Key {
		value, err := part.value(dir, env)
		if err != nil {
			return e, err
		}
		if value == "" {
			return e, fmt.Errorf("part %d of the key is empty", i+1)
		}
		e.Key = append(e.Key, api.CachePart{Value: value, Mandatory: i <= limit})
	}
	if len(e.Key) == 0 || len(d.Paths) == 0 {
		return e, errors.New("cache_key and target_paths are required")
	}
	e.Paths = d.Paths
	return e, nil
}

// value returns what a part stands for.
func (p keyPart) value(dir string, env environ.Environment) (string, error) {
	switch {
	case p.Text != "":
		return p.Text, nil
	case p.Env != "":
		return env[p.Env], nil
	case len(p.Checksum) > 0:
		return Checksum(dir, p.Checksum)
	}
	switch p.Agent {
	case "os":
		return runtime.GOOS, nil
	case "arch":
		return runtime.GOARCH, nil
	case "branch":
		return env.Service("BRANCH"), nil
	case "step":
		return env.Service("STEP_KEY"), nil
	case "pipeline":
		return env.Service("PIPELINE_SLUG"), nil
	}
	return "", errors.New("a part of a key is a text, or one of {agent: os|arch|branch|step|pipeline}, {checksum: FILE}, {env: NAME}")
}

// Checksum returns a checksum of the names and contents of files that match patterns.
func Checksum(dir string, patterns []string) (string, error) {
	files, err := artifact.Find(dir, strings.Join(patterns, ";"))
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", fmt.Errorf("no files match %s", strings.Join(patterns, ", "))
	}
	all := sha256.New()
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return "", err
		}
		if short, err := filepath.Rel(dir, name); err == nil {
			name = filepath.ToSlash(short)
		}
		fmt.Fprintf(all, "%q %x\n", name, sum.Sum(nil))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}
