package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A backup that begins after a write was acknowledged has it, while a server writes on. It can be restored into
// either engine.
func TestBackup_OfARunningServerHasEveryAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	for _, from := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(from), func(t *testing.T) {
			t.Parallel()
			installation := installationOn(t, from)
			apply(t, installation, killFile)
			p := serveOn(t, installation)
			var writers sync.WaitGroup
			stop := make(chan struct{})
			create := func(name string) {
				p.ask(t, adaToken, "POST", pipelinesPath, fmt.Sprintf(
					`{"name": %q, "repository": "https://git.example.test/a.git", "configuration": "steps: [{command: make}]"}`, name))
			}
			create("before")
			writers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						create(fmt.Sprintf("during-%d", i))
					}
				}
			})
			place := filepath.Join(t.TempDir(), "backups")
			status, _, stderr := stackyard(t, append([]string{"backup", "create", place}, installation...)...)
			close(stop)
			writers.Wait()
			if status != 0 {
				t.Fatalf("exit status %d: %s", status, stderr)
			}
			if status, _, stderr := stackyard(t, "backup", "verify", place); status != 0 {
				t.Fatalf("verify: exit status %d: %s", status, stderr)
			}
			for _, to := range []db.Engine{db.SQLite, db.PostgreSQL} {
				restored := emptyInstallation(t, to, secretKeyOf(t, installation))
				args := append([]string{"backup", "restore", place}, restored...)
				if status, _, stderr := stackyard(t, args...); status != 0 {
					t.Fatalf("restore into %s: exit status %d: %s", to, status, stderr)
				}
				serveOn(t, restored).get(t, adaToken, pipelinesPath+"/before")
			}
		})
	}
}

// installationOn returns the flags of a new installation.
func installationOn(t *testing.T, engine db.Engine) []string {
	if engine == db.SQLite {
		return []string{"--data", t.TempDir()}
	}
	return onPostgres(t, dbtest.URL(t, engine))
}

// emptyInstallation returns the flags of an installation without a database schema.
func emptyInstallation(t *testing.T, engine db.Engine, key string) []string {
	flags := []string{"--data", t.TempDir(), "--secret-key", key}
	if engine == db.PostgreSQL {
		flags = append(flags, "--database", dbtest.EmptyURL(t, engine))
	}
	return flags
}

// secretKeyOf returns the secret key of an installation.
func secretKeyOf(t *testing.T, installation []string) string {
	t.Helper()
	for i, arg := range installation {
		if arg == "--secret-key" {
			return installation[i+1]
		}
	}
	text, err := os.ReadFile(filepath.Join(installation[1], "secret.key"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestMigrateDatabase_ToPostgreSQLAndBack(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	apply(t, []string{"--data", source}, killFile)
	key := secretKeyOf(t, []string{"--data", source})
	p := serveOn(t, []string{"--data", source})
	postgres := dbtest.EmptyURL(t, db.PostgreSQL)
	status, _, stderr := stackyard(t, "migrate-database", "--from", "sqlite:"+source, "--to", postgres)
	if status != 1 || !strings.Contains(stderr, "another server is using") {
		t.Fatalf("while a server runs: exit status %d: %s", status, stderr)
	}
	p.stop(t)
	status, stdout, stderr := stackyard(t, "migrate-database", "--from", "sqlite:"+source, "--to", postgres)
	if status != 0 || !strings.Contains(stdout, "all tables: equal") {
		t.Fatalf("exit status %d: %s%s", status, stdout, stderr)
	}
	status, _, stderr = stackyard(t, "migrate-database", "--from", "sqlite:"+source, "--to", postgres)
	if status != 1 || !strings.Contains(stderr, "already contains an installation; nothing is ever overwritten") {
		t.Fatalf("a second time: exit status %d: %s", status, stderr)
	}
	q := serveOn(t, []string{"--data", t.TempDir(), "--database", postgres, "--secret-key", key})
	q.get(t, adaToken, "/v2/organizations/acme")
	q.stop(t)
	back := t.TempDir()
	if status, _, stderr := stackyard(t, "migrate-database", "--from", postgres, "--to", "sqlite:"+back); status != 0 {
		t.Fatalf("back: exit status %d: %s", status, stderr)
	}
	serveOn(t, []string{"--data", back, "--secret-key", key}).get(t, adaToken, "/v2/organizations/acme")
}

func TestBackup_NamesAFullDisk(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "-rm", "true").Run(); err != nil {
		t.Skipf("this system does not let tests mount a disk: %v", err)
	}
	data, place := t.TempDir(), t.TempDir()
	apply(t, []string{"--data", data}, killFile)
	if err := os.MkdirAll(filepath.Join(data, "blobs", "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, 2<<20)
	rand.Read(random)
	if err := os.WriteFile(filepath.Join(data, "blobs", "a", "b"), random, 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"`
	cmd := exec.Command("unshare", "-rm", "sh", "-c", script, place, "stackyard", "backup", "create", place, "--data", data)
	cmd.Env = command().Env
	output, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "no space left on device; free some space and run the same command again") {
		t.Errorf("error %v: %s", err, output)
	}
}
