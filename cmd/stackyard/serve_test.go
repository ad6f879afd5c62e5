package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stackyard/internal/clients/cmdline"
)

const (
	// organizations is an organization file with every possible attribute.
	organizations = "../../internal/app/orgfile/testdata/whole.yaml"
	// adaToken belongs to an administrator of its organization acme and has all scopes.
	adaToken      = "svcua_ada-everything"
	pipelinesPath = "/v2/organizations/acme/pipelines"
)

// serveOrganizations starts a server on a free port with organizations, on new data unless args set it.
func serveOrganizations(t testing.TB, args ...string) *process {
	t.Helper()
	return start(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", organizations}, args...)...)
}

func TestServe_PrintsWhereItListensWhenItAnswers(t *testing.T) {
	t.Parallel()
	p := launch(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	line := p.line(t)
	if !regexp.MustCompile(`^listening on http://127\.0\.0\.1:[1-9][0-9]*$`).MatchString(line) {
		t.Fatalf("the first line is %q", line)
	}
	p.URL = strings.TrimPrefix(line, "listening on ")
	p.get(t, "", "/readyz")
	p.stop(t)
	if line, more := <-p.lines; more {
		t.Errorf("it also printed %q", line)
	}
}

func TestServe_ReportsItsHealth(t *testing.T) {
	t.Parallel()
	p := serveOrganizations(t)
	p.get(t, "", "/healthz")
	p.get(t, "", "/readyz")

	p.get(t, adaToken, pipelinesPath+"/hello")
	metrics := p.get(t, "", "/metrics")
	if kind := metrics.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Errorf("metrics are %s", kind)
	}
	counter := `stackyard_http_requests_total{method="GET",route="/v2/organizations/{org}/pipelines/{pipeline}",status="200"} 1`
	if !strings.Contains(string(metrics.Body), counter+"\n") {
		t.Errorf("metrics have no line %s", counter)
	}
	if strings.Contains(string(metrics.Body), "acme") {
		t.Error("metrics name an organization")
	}

	document := decode[struct {
		OpenAPI string         `json:"openapi"`
		Paths   map[string]any `json:"paths"`
	}](t, p.get(t, "", "/openapi.json"))
	if !strings.HasPrefix(document.OpenAPI, "3.1.") || document.Paths["/v2/organizations/{org}/pipelines"] == nil {
		t.Errorf("openapi %q with %d paths", document.OpenAPI, len(document.Paths))
	}
}

func TestServe_KeepsItsDataFromOneStartToTheNext(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p := serveOrganizations(t, "--data", folder)
	made := p.ask(t, adaToken, "POST", pipelinesPath,
		`{"name": "Kept", "repository": "https://git.example.test/acme/kept.git", "configuration": "steps: [{command: make}]"}`).want(t, 201)
	p.stop(t)

	p = serveOrganizations(t, "--data", folder)
	kept := p.get(t, adaToken, pipelinesPath+"/kept")
	type pipeline struct{ ID, Name, Configuration string }
	if before, after := decode[pipeline](t, made), decode[pipeline](t, kept); before != after {
		t.Errorf("was %v, is %v", before, after)
	}
}

func TestServe_BeginsURLsWithThePublicOne(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                         "",
		"https://ci.example.test":  "https://ci.example.test",
		"https://example.test/ci/": "https://example.test/ci",
	} {
		p := serveOrganizations(t, "--public-url", given)
		if want == "" {
			want = p.URL
		}
		pipeline := decode[struct {
			URL string `json:"url"`
			Web string `json:"web_url"`
		}](t, p.get(t, adaToken, pipelinesPath+"/hello"))
		if pipeline.URL != want+pipelinesPath+"/hello" || pipeline.Web != want+"/acme/hello" {
			t.Errorf("--public-url %q: url %q, web_url %q", given, pipeline.URL, pipeline.Web)
		}
	}
}

func TestServe_TrustsForwardedAddressesFromTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	file := write(t, `
organizations:
  - slug: acme
    clusters:
      - name: Default
        agent_tokens:
          - {description: far away, token: svcct_far, allowed_ip_addresses: [203.0.113.0/24]}
`)
	direct := serveOrganizations(t, "--apply", file)
	behind := serveOrganizations(t, "--apply", file, "--trusted-proxies", "127.0.0.0/8,10.0.0.0/8")
	for _, c := range []struct {
		server    *process
		forwarded string
		status    int
	}{
		{direct, "", 401},
		{direct, "203.0.113.7", 401},
		{behind, "", 401},
		{behind, "203.0.113.7", 200},
		{behind, "203.0.113.7, 10.0.0.1", 200},
		{behind, "203.0.113.7, 198.51.100.1", 401}, // set by an untrusted client
		{behind, "198.51.100.1", 401},
	} {
		req, err := http.NewRequest("GET", c.server.URL+"/v3/token", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Token svcct_far")
		if c.forwarded != "" {
			req.Header.Set("X-Forwarded-For", c.forwarded)
		}
		got, err := send(httpClient, req)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != c.status {
			t.Errorf("trusting %t, forwarded for %q: status %d, want %d", c.server == behind, c.forwarded, got.Status, c.status)
		}
	}
}

func TestServe_ReportsThatItsAddressIsTaken(t *testing.T) {
	t.Parallel()
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	status, _, stderr := stackyard(t, "serve", "--listen", strings.TrimPrefix(p.URL, "http://"), "--data", t.TempDir())
	if status != cmdline.ExitFailed || !strings.Contains(stderr, "is in use by another program; choose another address with --listen") {
		t.Errorf("exit status %d\n%s", status, stderr)
	}
}

func TestServe_ReportsThatItCannotStoreBlobs(t *testing.T) {
	t.Parallel()
	for place, want := range map[string]struct {
		status int
		text   string
	}{
		"ftp://example.test":                           {cmdline.ExitUsage, `--blobs: "ftp:" is not a place for blobs`},
		filepath.Join(write(t, "a file"), "blobs"):     {cmdline.ExitFailed, "--blobs: cannot make the folder for blobs"},
		"s3://acme-blobs?endpoint=http://127.0.0.1:1/": {cmdline.ExitFailed, "--blobs: cannot write to s3://acme-blobs: cannot reach http://127.0.0.1:1"},
	} {
		cmd := command("serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--blobs", place)
		cmd.Env = append(cmd.Environ(), "AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret")
		stderr, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != want.status || !strings.Contains(string(stderr), want.text) {
			t.Errorf("--blobs %s: %v\n%s", place, err, stderr)
		}
	}
}

func TestServe_FinishesRequestsAndReportsDraining(t *testing.T) {
	t.Parallel()
	p := serveOrganizations(t)
	slow := beginSlowly(t, p)
	p.terminate(t)
	eventually(t, waitLimit, "/readyz says that it drains", func() bool {
		got := p.ask(t, "", "GET", "/readyz", "")
		return got.Status == 503 && strings.Contains(string(got.Body), "draining") && got.Header.Get("Retry-After") != ""
	})
	p.get(t, "", "/healthz")
	if got := slow.end(t); got.Status != 201 {
		t.Errorf("the request that had begun got status %d\n%s", got.Status, got.Body)
	}
	p.wait(t)
}

func TestServe_EndsWithinTenSecondsOfSIGTERMWhateverIsOpen(t *testing.T) {
	t.Parallel()
	p := serveOrganizations(t)
	beginSlowly(t, p)
	p.terminate(t)
	asked := time.Now()
	p.wait(t)
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A slowRequest is a request whose body is incomplete.
type slowRequest struct {
	conn net.Conn
	from *bufio.Reader
	rest string
}

// beginSlowly starts to create a pipeline.
func beginSlowly(t *testing.T, p *process) *slowRequest {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	const body = `{"name": "Slow", "repository": "https://git.example.test/acme/slow.git", "configuration": "steps: [{command: make}]"}`
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", pipelinesPath, adaToken, len(body))
	slow := &slowRequest{conn: conn, from: bufio.NewReader(conn), rest: body[10:]}
	// The server requests the body when the handler reads it.
	if line, err := slow.from.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q, %v", line, err)
	}
	io.WriteString(conn, body[:10])
	return slow
}

// end sends the rest of the body.
func (s *slowRequest) end(t *testing.T) answer {
	t.Helper()
	io.WriteString(s.conn, s.rest)
	var all bytes.Buffer
	s.from.WriteTo(&all)
	// The rest of the 100 Continue response comes first.
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(bytes.TrimLeft(all.Bytes(), "\r\n"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
}

func TestServe_PrintsALinkWithWhichTheFirstAdministratorSetsAPassword(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, installation []string) {
		apply(t, installation, `
organizations:
  - slug: acme
    members:
      - {email: bo@acme.test, role: member}
      - {email: ada@acme.test, role: admin}
`)
		serve := append([]string{"serve", "--listen", "127.0.0.1:0"}, installation...)
		p := start(t, serve...)
		if line := p.line(t); !strings.Contains(line, "sign in as ada@acme.test") {
			t.Errorf("it says %q", line)
		}
		link := strings.TrimSpace(p.line(t))
		path := strings.TrimPrefix(link, p.URL)
		if path == link {
			t.Fatalf("the link is %q", link)
		}
		p.get(t, "", path)
		form := url.Values{"new_password": {"a brand new password"}, "repeat_password": {"a brand new password"}}
		set, err := http.PostForm(link, form)
		if err != nil || set.StatusCode != http.StatusOK {
			t.Fatalf("set the password: %v, %v", set, err)
		}
		p.ask(t, "", "GET", path, "").want(t, http.StatusGone)
		p.stop(t)

		p = launch(t, serve...)
		p.waitReady(t)
		p.stop(t)
		if line, more := <-p.lines; more {
			t.Errorf("it prints %q although there is a password", line)
		}
	})
}

func TestServe_ShowsNoSecretsInListsOfProcesses(t *testing.T) {
	t.Parallel()
	const key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--secret-key", key)
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.cmd.Process.Pid))
	if err != nil || strings.Contains(string(arguments), key) || !strings.Contains(string(arguments), "serve") {
		t.Errorf("the arguments are %q, %v", arguments, err)
	}
}
