// Package gitremotetest gives tests a real Git repository that git http-backend serves.
package gitremotetest

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Repository is a repository with a working tree, on branch main. Set its fields before requests are sent.
type Repository struct {
	URL            string
	Folder         string
	User, Password string // required from clients; empty: nothing
	Version1       bool   // whether the server knows only version 1 of the protocol

	t testing.TB
}

// New returns an empty repository.
func New(t testing.TB) *Repository {
	t.Helper()
	r := &Repository{Folder: filepath.Join(t.TempDir(), "app"), t: t}
	if err := os.Mkdir(r.Folder, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Git("init", "-q", "-b", "main")
	r.Git("config", "user.name", "Grace")
	r.Git("config", "user.email", "grace@acme.test")
	backend := &cgi.Handler{
		Path: filepath.Join(r.Git("--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.Folder), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		if user != r.User || password != r.Password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Version1 {
			req.Header.Del("Git-Protocol")
		}
		backend.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL + "/app/.git"
	return r
}

// Git runs git in the repository and returns its output.
func (r *Repository) Git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.Folder
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Commit writes a file, commits it, and returns the commit.
func (r *Repository) Commit(file, content, message string) string {
	r.t.Helper()
	path := filepath.Join(r.Folder, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.Git("add", "-A")
	r.Git("commit", "-q", "-m", message)
	return r.Git("rev-parse", "HEAD")
}
