package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/platform/db/dbtest"
)

// A server that starts before PostgreSQL waits for it, and says so.
func TestServe_WaitsForPostgreSQLAtItsStart(t *testing.T) {
	t.Parallel()
	postgres, err := dbtest.StartServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(postgres.Stop)
	// Until the socket is linked into its folder, PostgreSQL cannot be reached.
	folder, err := os.MkdirTemp("", "stackyard-socket-") // t.TempDir() is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	database, err := url.Parse(postgres.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	query := database.Query()
	query.Set("host", folder)
	database.RawQuery = query.Encode()
	installation := onPostgres(t, database.String())

	status, _, stderr := stackyard(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--database-wait", "1ms"}, installation...)...)
	if status != cmdline.ExitFailed || !strings.Contains(stderr, "waited 1ms: start the database or correct --database") {
		t.Errorf("exit status %d: %s", status, stderr)
	}

	p := launch(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--database-wait", "1h"}, installation...)...)
	eventually(t, waitLimit, "the server waits", func() bool { return strings.Contains(p.stderrText(t), "database does not answer, waiting for it") })
	const socket = ".s.PGSQL.5432"
	if err := os.Symlink(filepath.Join(postgres.Folder(), socket), filepath.Join(folder, socket)); err != nil {
		t.Fatal(err)
	}
	p.waitReady(t)
	p.stop(t)
}
