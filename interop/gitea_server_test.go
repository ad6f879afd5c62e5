package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The version of Gitea that is tested, and the checksum of its module.
const (
	giteaModule = "code.gitea.io/gitea@v1.26.0"
	giteaSum    = "h1:fJP9dqLbzKrKWUVnCVTfVersZdVDuyJQLEDzCAOmKKA="
)

// A giteaServer is a running Gitea with the users ada and eve.
type giteaServer struct{ url string }

const giteaPassword = "correct horse 9"

// startGitea starts Gitea on SQLite in an empty folder.
func startGitea(t *testing.T, given string) *giteaServer {
	t.Helper()
	source := giteaSource(t)
	if given == "build" {
		given = filepath.Join(t.TempDir(), "gitea")
		build := exec.Command("nice", "go", "build", "-tags", "sqlite sqlite_unlock_notify", "-o", given, ".")
		build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build Gitea: %v\n%s", err, out)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	folder := t.TempDir()
	config := filepath.Join(folder, "app.ini")
	text := fmt.Sprintf(giteaConfig, folder, port, source)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(given, append(args, "--config", config, "--work-path", folder)...)
		cmd.Env = append(os.Environ(), "HOME="+folder, "USER=git")
		return cmd
	}
	log := &bytes.Buffer{}
	cmd := command("web")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("Gitea printed:\n%s", log)
		}
	})
	g := &giteaServer{"http://127.0.0.1:" + port}
	until(t, "Gitea", func() bool {
		resp, err := http.Get(g.url + "/api/v1/version")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	for _, user := range []string{"ada", "eve"} {
		create := command("admin", "user", "create", "--username", user, "--password", giteaPassword, "--email", user+"@acme.test", "--must-change-password=false")
		if out, err := create.CombinedOutput(); err != nil {
			t.Fatalf("create user %s: %v\n%s", user, err, out)
		}
	}
	return g
}

const giteaConfig = `
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = %[1]s
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[2]s
ROOT_URL = http://127.0.0.1:%[2]s/
STATIC_ROOT_PATH = %[3]s
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = %[1]s/gitea.db
[repository]
ROOT = %[1]s/repositories
[security]
INSTALL_LOCK = true
PASSWORD_COMPLEXITY = off
[webhook]
ALLOWED_HOST_LIST = loopback
[actions]
ENABLED = false
[log]
LEVEL = Warn
`

// giteaSource downloads Gitea and returns the folder of its source, with its templates.
func giteaSource(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", giteaModule)
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	var module struct{ Dir, Sum string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil || module.Sum != giteaSum {
		t.Fatalf("download %s: %v, checksum %s", giteaModule, err, module.Sum)
	}
	return module.Dir
}

// as returns the URL with the credentials of a user.
func (g *giteaServer) as(user string) string {
	return strings.Replace(g.url, "://", "://"+user+":"+strings.ReplaceAll(giteaPassword, " ", "%20")+"@", 1)
}

// call calls the API of Gitea as a user.
func (g *giteaServer) call(t *testing.T, user, method, path string, body, into any) {
	t.Helper()
	req, _ := http.NewRequest(method, g.url, nil)
	req.SetBasicAuth(user, giteaPassword)
	callJSON(t, method, g.url+"/api/v1"+path, req.Header.Get("Authorization"), body, into)
}

// token creates a token that may do what a connection needs.
func (g *giteaServer) token(t *testing.T, user string) string {
	t.Helper()
	var made struct{ SHA1 string }
	g.call(t, user, "POST", "/users/"+user+"/tokens", map[string]any{"name": t.Name(), "scopes": []string{"write:repository", "read:user"}}, &made)
	return made.SHA1
}

// callJSON sends a request and decodes the response, whose status must be 2xx.
func callJSON(t *testing.T, method, url, authorization string, body, into any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: status %d, %v\n%s", method, url, resp.StatusCode, err, got)
	}
	if into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			t.Fatalf("%s %s: %v in %s", method, url, err, got)
		}
	}
}
