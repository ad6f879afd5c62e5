package main

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// mounted runs the program with a disk of some kind mounted at a folder.
func mounted(t *testing.T, options, folder string, args ...string) (output string, err error) {
	t.Helper()
	if err := exec.Command("unshare", "-rm", "true").Run(); err != nil {
		t.Skipf("this system does not let tests mount a disk: %v", err)
	}
	script := `mount -t tmpfs -o ` + options + ` tmpfs "$0" && exec "$@"`
	cmd := exec.Command("unshare", append([]string{"-rm", "sh", "-c", script, folder, "stackyard"}, args...)...)
	cmd.Env = command().Env
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func TestCommands_NameAReadOnlyDisk(t *testing.T) {
	t.Parallel()
	data, place := t.TempDir(), t.TempDir()
	apply(t, []string{"--data", data}, killFile)
	output, err := mounted(t, "ro", place, "backup", "create", place, "--data", data)
	if err == nil || !strings.Contains(output, "read-only file system; make it writable for this user, or name another place") {
		t.Errorf("backup create: %v: %s", err, output)
	}
	if status, _, stderr := stackyard(t, "backup", "create", place, "--data", data, "--with-secret-key"); status != 0 {
		t.Fatalf("backup create on a writable disk: %s", stderr)
	}
	target := t.TempDir()
	output, err = mounted(t, "ro", target, "backup", "restore", place, "--data", filepath.Join(target, "data"))
	if err == nil || !strings.Contains(output, "read-only file system") {
		t.Errorf("backup restore: %v: %s", err, output)
	}
	output, err = mounted(t, "ro", target, "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(target, "data"))
	if err == nil || !strings.Contains(output, "make the data folder: ") || !strings.Contains(output, "read-only file system") {
		t.Errorf("serve: %v: %s", err, output)
	}
}

// migrate-database is killed at any moment, and the same command continues.
func TestMigrateDatabase_ContinuesAfterKill9(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if output, err := exec.Command("tar", "xzf", previousInstallation, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	data, target := filepath.Join(folder, "data"), dbtest.EmptyURL(t, db.PostgreSQL)
	migrate := []string{"migrate-database", "--from", "sqlite:" + data, "--to", target}
	installation := []string{"--data", data, "--database", target, "--secret-key", secretKeyOf(t, []string{"--data", data})}
	refused := 0
	for range 4 * *faults {
		p := launch(t, migrate...)
		select {
		case <-time.After(rand.N(1500 * time.Millisecond)): // any moment
		case <-p.ended:
		}
		p.kill()
		if p.cmd.ProcessState.ExitCode() == 0 {
			break // it was faster
		}
		status, _, stderr := stackyard(t, append([]string{"doctor"}, installation...)...)
		if strings.Contains(stderr, "panic") {
			t.Errorf("doctor: exit status %d: %s", status, stderr)
		}
		if status, _, stderr := stackyard(t, append([]string{"backup", "create", t.TempDir()}, installation...)...); status == cmdline.ExitFailed && strings.Contains(stderr, "only partly filled") {
			refused++
		}
	}
	status, stdout, stderr := stackyard(t, migrate...)
	if status != 0 && !strings.Contains(stderr, "already contains an installation") || status == 0 && !strings.Contains(stdout, "all tables: equal") {
		t.Fatalf("exit status %d: %s%s", status, stdout, stderr)
	}
	t.Logf("refused %d times while incomplete; at last: %s", refused, strings.Join(strings.Fields(stdout), " "))
	p := serveOn(t, installation)
	if state := decode[struct{ State string }](t, p.get(t, upgradeToken, upgradeBuilds+"/1")).State; state != "passed" {
		t.Errorf("build 1 is %s", state)
	}
}
