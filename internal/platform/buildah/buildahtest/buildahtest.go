// Package buildahtest makes a base image for tests without a network.
package buildahtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Base is the name of the image that NewBase makes.
const Base = "localhost/base:1"

// skipVariable lets the tests that need containers be skipped.
const skipVariable = "STACKYARD_SKIP_CONTAINER_TESTS"

// Need ends a test where containers cannot be run, or skips it where that is allowed.
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv(skipVariable) != "" {
		t.Skipf("SKIPPED: %s is set, so containers are not tested", skipVariable)
	}
	for _, program := range []string{"buildah", "runc", "busybox", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: install what the tests need with \"make tools\", or set %s to skip the tests that run containers", err, skipVariable)
		}
	}
	if os.Geteuid() != 0 {
		t.Fatalf("containers need root; set %s to skip the tests that run containers", skipVariable)
	}
}

// NewBase makes the image Base in the store of a folder: busybox, and the libraries of this program.
func NewBase(t testing.TB, folder string) {
	t.Helper()
	Need(t)
	root := t.TempDir()
	for _, dir := range []string{"bin", "etc", "tmp", "root", "usr/local/bin"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644))
	busybox, err := exec.LookPath("busybox")
	must(t, err)
	copyFile(t, busybox, filepath.Join(root, "bin/busybox"))
	for _, name := range strings.Fields(output(t, busybox, "--list")) {
		if name != "busybox" {
			must(t, os.Symlink("busybox", filepath.Join(root, "bin", name)))
		}
	}
	program, err := os.Executable()
	must(t, err)
	libraries, _ := exec.Command("ldd", program).Output() // fails for a static program, which needs none
	for _, word := range strings.Fields(string(libraries)) {
		if strings.HasPrefix(word, "/") {
			must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(word)), 0o755))
			copyFile(t, word, filepath.Join(root, word))
		}
	}
	store := []string{"--root", filepath.Join(folder, "storage"), "--runroot", filepath.Join(folder, "run"), "--storage-driver", "vfs"}
	buildah := func(args ...string) string { return strings.TrimSpace(output(t, "buildah", append(store, args...)...)) }
	container := buildah("from", "scratch")
	buildah("add", container, root, "/")
	buildah("config", "--cmd", "/bin/sh", "--env", "PATH=/usr/local/bin:/bin", container)
	buildah("commit", container, Base)
	buildah("rm", container)
}

// Processes returns the command lines of the running processes that contain a text.
func Processes(t testing.TB, text string) (found []string) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range entries {
		line, _ := os.ReadFile(path)
		if command := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(command, text) {
			found = append(found, command)
		}
	}
	return found
}

// WantNoProcesses waits until no process has a text in its command line: the kernel kills them a moment after their
// parent.
func WantNoProcesses(t testing.TB, text string) {
	t.Helper()
	var left []string
	for range 200 {
		if left = Processes(t, text); len(left) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("processes are left: %q", left)
}

func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		t.Fatalf("%s: %v\n%s", cmd, err, exit.Stderr)
	}
	must(t, err)
	return string(out)
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o755))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
