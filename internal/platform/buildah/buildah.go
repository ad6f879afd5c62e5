// Package buildah builds container images and runs commands in containers with the programs buildah and runc. It
// needs no daemon.
//
// A [Store] is a folder with images and containers. Every command runs as the first process of a PID namespace and
// is killed with this process (process.go), so that nothing it has started outlives it. What a killed command leaves
// in the folder is removed by [Store.Recover].
//
// Commands run with the OCI runtime if there is one, otherwise in a chroot.
package buildah

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Store holds images and containers. One process uses a store at a time.
type Store struct {
	dir     string
	program string
	runtime string // "": chroot
	version [2]int // major and minor

	lock     *os.File
	building sync.Mutex // buildah itself locks the store, and a build needs it for long

	creating   sync.RWMutex // read-locked while a container is created
	mu         sync.Mutex
	containers map[string]bool // that NewContainer has created

	// Insecure is how the names of images start whose registry has no TLS; "": none.
	Insecure string
}

// ErrMissing is returned by Open if the program is not installed.
var ErrMissing = errors.New("buildah is not installed on this server; install the packages buildah and runc")

// Open returns the store in a folder, which it creates. It returns an error if another process uses the store.
func Open(ctx context.Context, dir string) (*Store, error) {
	program, err := exec.LookPath("buildah")
	if err != nil {
		return nil, ErrMissing
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, program: program, containers: map[string]bool{}}
	if runtime, err := exec.LookPath("runc"); err == nil {
		s.runtime = runtime
	}
	for _, sub := range []string{"", "home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	if s.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("another process uses the images in %s", dir)
	}
	text, err := s.output(ctx, "version", "--json")
	if err != nil {
		s.Close()
		return nil, err
	}
	var version struct{ Version string }
	if err := json.Unmarshal(text, &version); err == nil {
		fmt.Sscanf(version.Version, "%d.%d", &s.version[0], &s.version[1])
	}
	return s, nil
}

// Close lets another process use the store.
func (s *Store) Close() error { return s.lock.Close() }

// Heredocs reports whether Dockerfiles can have heredocs.
func (s *Store) Heredocs() bool { return s.version[0] > 1 || s.version[0] == 1 && s.version[1] >= 33 }

// Version returns the version of buildah.
func (s *Store) Version() string { return fmt.Sprintf("%d.%d", s.version[0], s.version[1]) }

// Contained reports whether commands run with an OCI runtime, and not only in a chroot.
func (s *Store) Contained() bool { return s.runtime != "" }

// A Build describes an image to build.
type Build struct {
	Ref        string // name of the image
	Dockerfile string
	Memory     int64 // limit in bytes; 0: none
	Disk       int64 // limit in bytes, with the copy of the base image; 0: none
}

// Build builds an image and writes the output of all steps to out. It returns a *Failure if the build failed.
func (s *Store) Build(ctx context.Context, b Build, out io.Writer) error {
	s.building.Lock()
	defer s.building.Unlock()
	dir, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, files := filepath.Join(dir, "Dockerfile"), filepath.Join(dir, "context")
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(b.Dockerfile), 0o600); err != nil {
		return err
	}
	args := append([]string{"bud"}, s.isolation()...)
	args = append(args, "--layers=false", "--force-rm", "--network", "host", "--format", "docker", "-f", file, "-t", b.Ref)
	if s.runtime != "" && b.Memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(b.Memory, 10))
	}
	use := s.measureDisk()
	err = s.run(ctx, limits{memory: b.Memory, disk: b.Disk, use: use.bytes}, nil, out, append(args, files)...)
	if errors.Is(err, ErrMemory) || errors.Is(err, ErrDisk) || errors.Is(err, context.DeadlineExceeded) { // it was killed
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		err = errors.Join(err, s.removeStopped(last))
	}
	return err
}

// cleanUpTimeout bounds removing what a killed build has left. What is left then, or by a build that was canceled because
// the server stops, is removed by [Store.Recover].
const cleanUpTimeout = 20 * time.Second

// isolation returns the flags that select how commands run.
func (s *Store) isolation() []string {
	if s.runtime == "" {
		return []string{"--isolation", "chroot"}
	}
	return []string{"--isolation", "oci", "--runtime", s.runtime}
}

// Push copies an image to its registry.
func (s *Store) Push(ctx context.Context, ref string, insecure bool, out io.Writer) error {
	return s.run(ctx, limits{}, nil, out, "push", "--tls-verify="+strconv.FormatBool(!insecure), ref, "docker://"+ref)
}

// Has reports whether the store has an image.
func (s *Store) Has(ctx context.Context, ref string) (bool, error) {
	names, err := s.Images(ctx)
	for _, name := range names {
		if name == ref {
			return true, nil
		}
	}
	return false, err
}

// Images returns the names of all images.
func (s *Store) Images(ctx context.Context) (names []string, err error) {
	text, err := s.output(ctx, "images", "--json")
	if err != nil {
		return nil, err
	}
	var images []struct{ Names []string }
	if err := json.Unmarshal(text, &images); err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	for _, i := range images {
		names = append(names, i.Names...)
	}
	return names, nil
}

// RemoveImage removes an image. It is no error if there is none.
func (s *Store) RemoveImage(ctx context.Context, ref string) error {
	has, err := s.Has(ctx, ref)
	if err != nil || !has {
		return err
	}
	if _, err := s.output(ctx, "rmi", ref); err != nil {
		return err
	}
	_, err = s.output(ctx, "rmi", "--prune")
	return err
}

// Recover removes all containers. Call it before anything else: they are what a killed process has left.
func (s *Store) Recover(ctx context.Context) error {
	if err := os.RemoveAll(filepath.Join(s.dir, "tmp")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "tmp"), 0o700); err != nil {
		return err
	}
	if _, err := s.output(ctx, "rm", "--all"); err != nil {
		return err
	}
	_, err := s.output(ctx, "rmi", "--prune")
	return err
}

// flags are the flags of every command.
func (s *Store) flags() []string {
	// vfs works everywhere; overlay needs support of the file system.
	return []string{"--root", filepath.Join(s.dir, "storage"), "--runroot", filepath.Join(s.dir, "run"), "--storage-driver", "vfs"}
}

// output returns the output of a short command.
func (s *Store) output(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := s.run(ctx, limits{}, &out, io.Discard, args...)
	return out.Bytes(), err
}

// A Failure is a command that has failed.
type Failure struct {
	Command string
	Status  int
	Message string // the last error message
}

func (f *Failure) Error() string {
	if f.Message != "" {
		return f.Message
	}
	return fmt.Sprintf("buildah %s failed with status %d", f.Command, f.Status)
}

// logPrefix is before some messages of buildah: a time and a level.
var logPrefix = regexp.MustCompile(`^(time="[^"]*" level=\w+ msg=|[A-Z]+\[\d+\] )`)

// errorIn returns the last error message in the output of a command.
func errorIn(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(logPrefix.ReplaceAllString(lines[i], ""))
		if text, ok := strings.CutPrefix(line, "Error: "); ok {
			return text
		}
		if text, ok := strings.CutPrefix(line, "error "); ok {
			return "error " + text
		}
	}
	return ""
}
