// Command packaging builds a release: binaries, packages for Debian and RPM systems, a container image, a software
// bill of materials and checksums. The same commit gives the same bytes, and once the modules are there it needs no
// network.
//
//	go run . --out ../dist --version 1.4.0
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A release is what is built, and from what.
type release struct {
	source  string // the folder of the repository
	out     string
	version string // without a leading v
	time    time.Time
}

// A platform is an operating system and an architecture in Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// platforms are what a release has binaries for. Linux also gets packages and images.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func main() {
	out := flag.String("out", "dist", "folder for the release, which must be empty or not exist")
	source := flag.String("source", "..", "folder of the repository")
	version := flag.String("version", "", "version (default: the tag of the commit, or 0.0.0 with the commit)")
	only := flag.String("only", "", "build for one platform only, for example linux-amd64")
	flag.Parse()
	if err := run(*source, *out, *version, *only); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func run(source, out, version, only string) error {
	chosen := slices.DeleteFunc(slices.Clone(platforms), func(p platform) bool { return only != "" && p.String() != only })
	if len(chosen) == 0 {
		return fmt.Errorf("--only %s: platforms are %v", only, platforms)
	}
	r, err := newRelease(source, out, version)
	if err != nil {
		return err
	}
	for _, p := range chosen {
		if err := r.build(p); err != nil {
			return err
		}
		if err := r.describe(p); err != nil {
			return err
		}
		if p.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(p, format); err != nil {
				return err
			}
		}
	}
	if err := r.image(slices.DeleteFunc(chosen, func(p platform) bool { return p.os != "linux" })); err != nil {
		return err
	}
	return r.sum()
}

// newRelease finds out what the commit is called and when it was made: that time is the time of all files.
func newRelease(source, out, version string) (*release, error) {
	files, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(files) > 0 {
		return nil, fmt.Errorf("%s is not empty", out)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	if out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	r := &release{source: source, out: out, version: strings.TrimPrefix(version, "v")}
	if r.version == "" {
		if r.version, err = r.versionOfCommit(); err != nil {
			return nil, err
		}
	}
	committed, err := r.git("log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(committed, 10, 64)
	r.time = time.Unix(seconds, 0).UTC()
	return r, err
}

// versionOfCommit returns the version in the tag of the commit. Commits between releases sort before the next one.
func (r *release) versionOfCommit() (string, error) {
	if tag, err := r.git("describe", "--tags", "--exact-match", "--match", "v[0-9]*"); err == nil {
		return strings.TrimPrefix(tag, "v"), nil
	}
	commit, err := r.git("rev-parse", "--short=12", "HEAD")
	return "0.0.0-" + commit, err
}

func (r *release) git(args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", r.source}, args...)...)
	text, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(text)), err
}

// binary returns the path of the binary for a platform.
func (r *release) binary(p platform) string { return filepath.Join(r.out, "stackyard-"+p.String()) }

func (r *release) build(p platform) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+r.version, "-o", r.binary(p), "./cmd/stackyard")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+p.os, "GOARCH="+p.arch)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build for %s: %w", p, err)
	}
	return os.Chtimes(r.binary(p), r.time, r.time)
}

// sum writes SHA256SUMS, which "sha256sum --check" reads.
func (r *release) sum() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		if err := r.sumFile(&sums, f.Name()); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

func (r *release) sumFile(sums io.Writer, name string) error {
	f, err := os.Open(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	_, err = fmt.Fprintf(sums, "%x  %s\n", h.Sum(nil), name)
	return err
}
