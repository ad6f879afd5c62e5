package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stackyard/api"
	"stackyard/internal/clients/client"
)

// A terminal runs client commands with its own configuration.
type terminal struct {
	server *process
	folder string // configuration directory
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	server := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", clientOrganizations)
	return &terminal{server: server, folder: filepath.Join(t.TempDir(), "config")}
}

func (term *terminal) command(args ...string) *exec.Cmd {
	cmd := command(args...)
	cmd.Env = append(cmd.Env, "STACKYARD_CONFIG_DIR="+term.folder)
	return cmd
}

// run runs a command and returns its output and whether it succeeded.
func (term *terminal) run(t *testing.T, args ...string) (output string, ok bool) {
	t.Helper()
	var all bytes.Buffer
	cmd := term.command(args...)
	cmd.Stdout, cmd.Stderr = &all, &all
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return all.String(), err == nil
}

// login runs stackyard login, calls decide with the code, and returns the output and whether it succeeded.
func (term *terminal) login(t *testing.T, decide func(code string)) (output string, ok bool) {
	t.Helper()
	cmd := term.command("login", term.server.URL, "--no-browser")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	framed := regexp.MustCompile(`║  (.+)  ║`)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(&shown, lines.Text())
		if found := framed.FindStringSubmatch(lines.Text()); found != nil {
			decide(strings.ReplaceAll(found[1], " ", ""))
		}
	}
	err = cmd.Wait()
	return shown.String() + stdout.String(), err == nil
}

// decide signs in as Ada in a browser and decides on a code.
func (term *terminal) decide(t *testing.T, code, decision string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	post := func(path string, form url.Values) {
		res, err := browser.PostForm(term.server.URL+path, form)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if page, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s\n%s", path, res.Status, page)
		}
	}
	var acme struct{ ID string }
	c := api.Client{URL: term.server.URL, Token: "svcua_ada-everything"}
	if err := c.Do(t.Context(), http.MethodGet, "/v2/organizations/acme", nil, &acme); err != nil {
		t.Fatal(err)
	}
	post("/login", url.Values{"email": {"ada@acme.test"}, "password": {"correct horse battery staple"}})
	post("/oauth/device/"+code, url.Values{"decision": {decision}, "organization": {acme.ID}})
}

// stored returns the stored login.
func (term *terminal) stored(t *testing.T) client.Login {
	t.Helper()
	hosts, err := client.LoadHosts(filepath.Join(term.folder, "hosts.json"))
	if err != nil {
		t.Fatal(err)
	}
	return hosts.Logins[term.server.URL]
}

func TestLogin_LastsUntilLogout(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	output, ok := term.login(t, func(code string) { term.decide(t, code, "approve") })
	if !ok || !strings.HasSuffix(output, fmt.Sprintf("Signed in to %s as ada@acme.test.\n", term.server.URL)) {
		t.Fatalf("login: %v\n%s", ok, output)
	}
	for _, part := range []string{term.server.URL + "/oauth/device", "█", "Waiting for approval."} {
		if !strings.Contains(output, part) {
			t.Errorf("login did not show %q:\n%s", part, output)
		}
	}
	if found, err := os.Stat(filepath.Join(term.folder, "hosts.json")); err != nil || found.Mode().Perm() != 0o600 {
		t.Errorf("the file of hosts: %v, %v", found, err)
	}

	first := term.stored(t)
	if output, ok := term.run(t, "whoami"); !ok || !strings.Contains(output, "Ada <ada@acme.test>") || strings.Contains(output, "write_organizations") {
		t.Errorf("whoami: %v\n%s", ok, output)
	}
	if output, ok := term.run(t, "pipeline", "list"); !ok || !strings.Contains(output, "hello") {
		t.Errorf("pipeline list: %v\n%s", ok, output)
	}
	last := term.stored(t)
	if last.AccessToken == first.AccessToken || last.RefreshToken == first.RefreshToken {
		t.Error("tokens that were about to expire were not renewed")
	}

	if output, ok := term.run(t, "logout"); !ok || output != "Signed out of "+term.server.URL+".\n" {
		t.Errorf("logout: %v\n%s", ok, output)
	}
	c := api.Client{URL: term.server.URL, Token: last.AccessToken}
	if err := c.Do(t.Context(), http.MethodGet, "/v2/user", nil, new(json.RawMessage)); err == nil {
		t.Error("the token outlived the logout")
	}
	if output, ok := term.run(t, "whoami"); ok || !strings.Contains(output, "no server configured") {
		t.Errorf("whoami: %v\n%s", ok, output)
	}
}

func TestLogin_ReportsThatItWasDenied(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	output, ok := term.login(t, func(code string) { term.decide(t, code, "deny") })
	if ok || !strings.Contains(output, "stackyard: the request was denied in the browser") {
		t.Errorf("login: %v\n%s", ok, output)
	}
}

func TestLogin_ReportsInvalidServers(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	for server, want := range map[string]string{
		"127.0.0.1:1": "reach http://127.0.0.1:1",
		"ftp://x":     "is not the URL of a server",
	} {
		if output, ok := term.run(t, "login", server); ok || !strings.Contains(output, want) {
			t.Errorf("login %s: %v\n%s", server, ok, output)
		}
	}
}
