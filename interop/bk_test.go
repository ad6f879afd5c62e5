package interop

import (
	"bufio"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"stackyard/internal/platform/db"
)

// A bk is the published command line of a person, in a checkout.
type bk struct {
	program string
	dir     string
	env     []string
}

// newBK returns the published command line for a server. Its path is in STACKYARD_TEST_BK.
func newBK(t *testing.T, s *server, dir string, env ...string) *bk {
	t.Helper()
	program := os.Getenv("STACKYARD_TEST_BK")
	if program == "" {
		t.Skip("STACKYARD_TEST_BK is not the path of a bk binary")
	}
	kept := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BUILDKITE") || strings.HasPrefix(v, "CI=")
	})
	return &bk{program: program, dir: dir, env: append(append(kept, "HOME="+t.TempDir(),
		"BUILDKITE_REST_API_ENDPOINT="+s.url, "BUILDKITE_GRAPHQL_ENDPOINT="+s.url+"/graphql", "BUILDKITE_ORGANIZATION_SLUG=acme",
		"BK_TELEMETRY=false", "BUILDKITE_NO_PAGER=1", "BUILDKITE_NO_INPUT=1", "NO_COLOR=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@acme.test", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@acme.test"), env...)}
}

// run runs a command, which must succeed, and returns its output.
func (b *bk) run(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(b.program, append([]string{"--yes"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = b.dir, b.env, strings.NewReader(stdin)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("bk %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return string(output)
}

// want runs a command whose output must contain a text.
func (b *bk) want(t *testing.T, text string, args ...string) {
	t.Helper()
	if output := b.run(t, "", args...); !strings.Contains(output, text) {
		t.Errorf("bk %s: %s\nwant %q", strings.Join(args, " "), output, text)
	}
}

// get returns a value of the JSON that a command prints, for example builds.0.id.
func (b *bk) get(t *testing.T, path string, args ...string) string {
	t.Helper()
	var value any
	if output := b.run(t, "", args...); json.Unmarshal([]byte(output), &value) != nil {
		t.Fatalf("bk %s: %s", strings.Join(args, " "), output)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			if len(v) == 0 {
				t.Fatalf("bk %s: nothing at %s", strings.Join(args, " "), path)
			}
			value = v[0]
		}
	}
	return fmt.Sprint(value)
}

const bkSteps = `
env: {SERVICE_SKIP_CHECKOUT: "true"}
steps:
  - {label: Say, command: "echo hello; echo data > out.txt; stackyard agent artifact upload out.txt"}
  - {block: "Go?", fields: [{text: Why, key: why}]}
  - {label: Fail, command: "exit 3"}
`

// Every command of bk that calls the server works. The others work on local files, or call hosts that are built into bk.
func TestBK_EveryCommandThatCallsTheServer(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		origin := t.TempDir()
		checkout, _ := repository(t, map[string]string{"README": "hello"})
		for _, args := range [][]string{{"init", "--quiet", "--bare", origin}, {"-C", checkout, "remote", "add", "origin", origin}, {"-C", checkout, "push", "--quiet", "origin", "main"}} {
			if output, err := exec.Command("git", args...).CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, output)
			}
		}
		b := newBK(t, s, checkout, "BUILDKITE_API_TOKEN="+ada, "BUILDKITE_NO_KEYRING=1")
		ourAgent(t, s)
		b.want(t, `"scopes"`, "whoami")
		b.want(t, `"acme"`, "auth", "status")
		testBKBuilds(t, s, b)
		s.ask(t, "Bearer "+ada, http.MethodPost, "/v2/organizations/acme/pipelines",
			`{"name": "Plain", "repository": "https://git.example.test/acme/plain.git", "cluster_id": "`+clusterID+`", "configuration": "{env: {SERVICE_SKIP_CHECKOUT: \"true\"}, steps: [{command: \"true\"}]}"}`)
		b.want(t, "passed", "preflight", "run", "-p", "plain", "--text")
		b.run(t, "", "preflight", "cleanup", "-p", "plain", "--text")
		testBKAgents(t, b)
		testBKClusters(t, b)

		b.want(t, `"hello"`, "pipeline", "list")
		b.want(t, `"hello"`, "pipeline", "view", "hello")
		b.want(t, `"second"`, "pipeline", "create", "Second", "-r", "https://git.example.test/acme/second.git", "--cluster-name", "Default")
		b.want(t, `"copied"`, "pipeline", "copy", "hello", "-t", "Copied")
		b.want(t, "eve@acme.test", "user", "invite", "eve@acme.test")
		b.want(t, `"slug": "hello"`, "api", "pipelines/hello")
		b.want(t, `[]`, "api", "--analytics", "suites")
		file := filepath.Join(t.TempDir(), "viewer.graphql")
		if err := os.WriteFile(file, []byte("query Me { viewer { user { name } } }"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.want(t, `Ada`, "api", "-f", file)

	})
}

func testBKBuilds(t *testing.T, s *server, b *bk) {
	t.Helper()
	s.ask(t, "Bearer "+ada, http.MethodPatch, "/v2/organizations/acme/pipelines/hello", `{"configuration": `+quoteJSON(bkSteps)+`}`)
	b.want(t, "/acme/hello/builds/1", "build", "create", "-p", "hello", "-m", "Try it", "-e", "A=b", "-M", "c=d", "-b", "main")
	b.want(t, `"number": 1`, "build", "list")
	b.want(t, `"number": 1`, "build", "list", "-p", "hello", "--creator", "ada@acme.test")
	state := func(i int) string {
		build := s.ask(t, "Bearer "+ada, http.MethodGet, "/v2/organizations/acme/pipelines/hello/builds/1", "")
		return build["jobs"].([]any)[i].(map[string]any)["state"].(string)
	}
	id := func(i int) string {
		build := s.ask(t, "Bearer "+ada, http.MethodGet, "/v2/organizations/acme/pipelines/hello/builds/1", "")
		return build["jobs"].([]any)[i].(map[string]any)["id"].(string)
	}
	until(t, "the first job to pass", func() bool { return state(0) == "passed" })
	b.want(t, `"Try it"`, "build", "view", "1", "-p", "hello")
	b.want(t, `"Try it"`, "build", "view", "1", "-p", "hello", "--summary")
	b.want(t, `"blocked"`, "build", "view", "1", "-p", "hello", "-s", "blocked")
	b.want(t, `"number": 1`, "build", "view", "-p", "hello", "--mine")
	b.want(t, `"out.txt"`, "artifacts", "list", "1", "-p", "hello")
	b.want(t, `"out.txt"`, "artifacts", "list", "1", "-p", "hello", "-j", id(0))
	b.want(t, "Downloaded: out.txt", "artifacts", "download", "-b", "1", "-p", "hello")
	b.want(t, id(0), "job", "list", "-p", "hello")
	b.want(t, id(0), "job", "list", "--queue", "default")
	b.want(t, "hello", "job", "log", id(0))
	b.run(t, `{"why": "because"}`, "job", "unblock", id(1))
	until(t, "the last job to fail", func() bool { return state(2) == "failed" })
	b.run(t, "", "job", "retry", id(2))
	until(t, "the retried job to fail", func() bool { return state(2) == "failed" })
	b.run(t, "", "build", "download", "1", "-p", "hello")
	b.want(t, "/acme/hello/builds/2", "build", "rebuild", "1", "-p", "hello")
	b.want(t, "canceled", "build", "cancel", "2", "-p", "hello")
	watched := exec.Command(b.program, "build", "watch", "1", "-p", "hello")
	watched.Dir, watched.Env = b.dir, b.env
	if output, _ := watched.CombinedOutput(); !strings.Contains(string(output), "failed") {
		t.Errorf("bk build watch: %s", output)
	}
}

func testBKAgents(t *testing.T, b *bk) {
	t.Helper()
	id := b.get(t, "0.id", "agent", "list")
	b.want(t, `"ours"`, "agent", "view", id)
	b.run(t, "", "agent", "pause", id, "--note", "busy")
	b.want(t, `"busy"`, "agent", "view", id)
	b.run(t, "", "build", "create", "-p", "hello")
	job := b.get(t, "0.id", "job", "list", "--state", "scheduled")
	b.want(t, "7", "job", "reprioritize", job, "7")
	b.want(t, job, "job", "list", "--queue", "default", "--state", "scheduled")
	b.want(t, "canceled", "job", "cancel", job)
	b.run(t, "", "agent", "resume", id)
	b.run(t, id+"\n", "agent", "stop")
}

func testBKClusters(t *testing.T, b *bk) {
	t.Helper()
	b.want(t, `"Default"`, "cluster", "list")
	b.want(t, `"Default"`, "cluster", "view", clusterID)
	two := b.get(t, "id", "cluster", "create", "--name", "Two", "--emoji", ":rocket:", "--color", "#FF0000")
	b.want(t, `"Zwei"`, "cluster", "update", two, "--name", "Zwei")
	b.want(t, "deleted", "cluster", "delete", two)

	b.want(t, `"default"`, "queue", "list", clusterID)
	b.want(t, `"default"`, "queue", "view", clusterID, queueID)
	queue := b.get(t, "id", "queue", "create", clusterID, "--key", "big", "--description", "Big")
	b.want(t, `"Bigger"`, "queue", "update", clusterID, queue, "--description", "Bigger")
	b.want(t, `"why"`, "queue", "pause", clusterID, queue, "--note", "why")
	b.run(t, "", "queue", "resume", clusterID, queue)
	b.want(t, "deleted", "queue", "delete", clusterID, queue)

	maintainer := b.get(t, "id", "maintainer", "create", clusterID, "--user", boID)
	b.want(t, `"Bo"`, "maintainer", "list", clusterID)
	b.want(t, "deleted", "maintainer", "delete", clusterID, maintainer)

	secret := b.get(t, "id", "secret", "create", "--cluster-uuid", clusterID, "--key", "DEPLOY", "--value", "hidden")
	b.want(t, `"DEPLOY"`, "secret", "list", "--cluster-uuid", clusterID)
	b.want(t, `"DEPLOY"`, "secret", "get", "--cluster-uuid", clusterID, "--secret-id", secret)
	b.want(t, `"To deploy"`, "secret", "update", "--cluster-uuid", clusterID, "--secret-id", secret, "--description", "To deploy")
	b.want(t, "deleted", "secret", "delete", "--cluster-uuid", clusterID, "--secret-id", secret)
}

// bk signs in with a code that a person approves, and then calls the server with the token it got.
func TestBK_SignsInWithACode(t *testing.T) {
	if os.Getenv("STACKYARD_TEST_BK") == "" {
		t.Skip("STACKYARD_TEST_BK is not the path of a bk binary")
	}
	certificate := httptest.NewTLSServer(nil) // for its certificate only
	certificate.Close()
	folder := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(certificate.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: certificate.Certificate().Raw}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := serve(t, db.SQLite, "--tls-cert", certFile, "--tls-key", keyFile)
	store, err := os.MkdirTemp("/dev/shm", "bk-")
	if err != nil {
		t.Skipf("bk stores tokens in /dev/shm: %v", err)
	}
	defer os.RemoveAll(store)
	b := newBK(t, s, folder, "BUILDKITE_HOST="+strings.TrimPrefix(s.url, "https://"), "SSL_CERT_FILE="+certFile,
		"BUILDKITE_CREDENTIAL_STORE=shm", "BUILDKITE_CREDENTIAL_STORE_PATH="+filepath.Join(store, "credentials.json"))
	login := exec.Command(b.program, "auth", "login", "--device", "--credential-store", "shm")
	login.Dir, login.Env = b.dir, b.env
	stdout, err := login.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	login.Stderr = login.Stdout
	if err := login.Start(); err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`/oauth/device/[A-Z-]+`)
	var shown strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Fprintln(&shown, lines.Text())
		if path := address.FindString(lines.Text()); path != "" {
			approve(t, s, certificate.Client(), path)
		}
	}
	if err := login.Wait(); err != nil {
		t.Fatalf("bk auth login: %v\n%s", err, shown.String())
	}
	b.want(t, `"acme"`, "auth", "status")
	b.want(t, `"hello"`, "pipeline", "list")
	b.run(t, "", "auth", "logout")
}

// approve approves a code in a browser, as Ada.
func approve(t *testing.T, s *server, browser *http.Client, path string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser.Jar = jar
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v2/organizations/acme", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+ada)
	res, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var acme struct{ ID string }
	err = json.NewDecoder(res.Body).Decode(&acme)
	res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []struct {
		path string
		form url.Values
	}{
		{"/login", url.Values{"email": {"ada@acme.test"}, "password": {adaPassword}}},
		{path, url.Values{"decision": {"approve"}, "organization": {acme.ID}}},
	} {
		res, err := browser.PostForm(s.url+page.path, page.form)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s\n%s", page.path, res.Status, text)
		}
	}
}

// ourAgent starts an agent of the program under test, until the end of the test.
func ourAgent(t *testing.T, s *server) {
	t.Helper()
	cmd := exec.Command(binary, "agent", "--endpoint", s.url+"/v3", "--token", "svcct_acme", "--name", "ours", "--build-path", t.TempDir())
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
}

func quoteJSON(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}
