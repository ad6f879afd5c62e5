package interop

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/buildkite/go-buildkite/v4"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/db/dbtest"
)

// A server is a running stackyard with the organizations of [world].
type server struct {
	url string
}

// each runs a test against a new server on each engine, as subtests named after the engine.
func each(t *testing.T, fn func(t *testing.T, s *server)) {
	t.Parallel()
	for _, engine := range []db.Engine{db.SQLite, db.PostgreSQL} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			fn(t, serve(t, engine))
		})
	}
}

// serve starts a server with further flags, and stops it at the end of the test as an operator would.
func serve(t *testing.T, engine db.Engine, flags ...string) *server {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "organizations.yaml")
	if err := os.WriteFile(file, []byte(world), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(folder, "data"), "--apply", file, "--log-format", "text", "--outbound-allow", "127.0.0.0/8"}
	if engine == db.PostgreSQL {
		args = append(args, "--database", dbtest.URL(t, engine), "--secret-key", strings.Repeat("5e", 32))
	}
	cmd := exec.Command(binary, append(args, flags...)...)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, cmd, stdout) })
	return &server{url: readyURL(t, stdout)}
}

// readyURL waits for the ready line and returns its URL.
func readyURL(t *testing.T, stdout io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, ready := strings.CutPrefix(lines.Text(), "listening on "); ready {
			return url
		}
	}
	t.Fatalf("the server ended before it was ready: %v", lines.Err())
	return ""
}

// stop stops a server, which must exit with status 0 within ten seconds.
func stop(t *testing.T, cmd *exec.Cmd, stdout io.Reader) {
	const promised = 10 * time.Second
	cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(promised, func() { cmd.Process.Kill() })
	defer kill.Stop()
	io.Copy(t.Output(), stdout)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server did not end well: %v", err)
	}
}

// as returns a client with an access token.
func (s *server) as(t *testing.T, token string) *buildkite.Client {
	t.Helper()
	client, err := buildkite.NewClient(buildkite.WithBaseURL(s.url), buildkite.WithTokenAuth(token))
	if err != nil {
		t.Fatal(err)
	}
	return client
}
