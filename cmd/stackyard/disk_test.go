package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"stackyard/internal/platform/db"
)

// serveOnSmallDisk starts a server whose data is on a 64 MiB disk with 6 MiB free. It returns the data
// directory as this process sees it.
func serveOnSmallDisk(t *testing.T) (p *process, folder string) {
	t.Helper()
	if err := exec.Command("unshare", "-rm", "true").Run(); err != nil {
		t.Skipf("this system does not let tests mount a disk: %v", err)
	}
	data := t.TempDir()
	const script = `mount -t tmpfs -o size=64m tmpfs "$0" && head -c 58M /dev/zero >"$0/taken" && exec "$@"`
	server := exec.Command("unshare", "-rm", "sh", "-c", script, data, "stackyard", "serve", "--listen", "127.0.0.1:0", "--data", data)
	server.Env = command().Env
	p = spawn(t, server)
	p.waitReady(t)
	return p, filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "root", data)
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func TestServe_IsNotReadyWhileItsDiskIsFull(t *testing.T) {
	t.Parallel()
	p, data := serveOnSmallDisk(t)
	eventually(t, waitLimit, "a warning of the disk", func() bool { return strings.Contains(p.stderrText(t), "disk space low") })
	ready := func(status int) answer {
		t.Helper()
		var a answer
		eventually(t, waitLimit, "/readyz is "+strconv.Itoa(status), func() bool {
			a = p.ask(t, "", "GET", "/readyz", "")
			return a.Status == status
		})
		return a
	}
	ready(200)
	fill(t, filepath.Join(data, "rest"))
	if got := string(ready(503).Body); !strings.Contains(got, db.DiskFull) {
		t.Errorf("/readyz says %s", got)
	}
	p.get(t, "", "/healthz")
	if err := os.Remove(filepath.Join(data, "rest")); err != nil {
		t.Fatal(err)
	}
	ready(200)
}
