package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// A screen is a command at a real terminal of 100 by 30 characters.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File
	seen bytes.Buffer
}

// onScreen starts a command at a terminal.
func onScreen(t *testing.T, server *process, env []string, args ...string) *screen {
	t.Helper()
	cmd := command(args...)
	cmd.Env = append(cmd.Env, "STACKYARD_SERVER="+server.URL, "STACKYARD_CONFIG_DIR="+filepath.Join(t.TempDir(), "config"),
		"TERM=xterm", "CI=", "NO_COLOR=", "STACKYARD_PAGER=cat")
	if env == nil {
		env = []string{"STACKYARD_TOKEN=svcua_ada-everything"}
	}
	cmd.Env = append(cmd.Env, env...)
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, cmd: cmd, file: file}
	t.Cleanup(func() {
		file.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return s
}

// await reads until the screen has shown a text.
func (s *screen) await(text string) {
	s.t.Helper()
	buffer := make([]byte, 4096)
	for !strings.Contains(s.seen.String(), text) {
		n, err := s.file.Read(buffer)
		s.seen.Write(buffer[:n])
		if err != nil {
			s.t.Fatalf("the command ended before %q:\n%s", text, s.seen.String())
		}
	}
}

// answer types a line.
func (s *screen) answer(text string) {
	s.t.Helper()
	if _, err := s.file.WriteString(text + "\n"); err != nil {
		s.t.Fatal(err)
	}
}

// end reads until the command ends, and returns all that was shown and the exit status.
func (s *screen) end() (shown string, status int) {
	s.seen.ReadFrom(s.file) // ends with an error, because the terminal is closed
	s.cmd.Wait()
	return s.seen.String(), s.cmd.ProcessState.ExitCode()
}

// clientServer starts a server with the organization of the client scripts.
func clientServer(t *testing.T) *process {
	t.Helper()
	return start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--apply", clientOrganizations)
}

func (p *process) createBuild(t *testing.T, configuration string) {
	t.Helper()
	const token = "svcua_ada-everything"
	if configuration != "" {
		p.ask(t, token, "PATCH", "/v2/organizations/acme/pipelines/hello", `{"configuration": `+configuration+`}`).want(t, http.StatusOK)
	}
	p.ask(t, token, "POST", "/v2/organizations/acme/pipelines/hello/builds", `{"commit": "HEAD", "branch": "main", "message": "Try it"}`).want(t, http.StatusCreated)
}

func TestTerminal_HasColorsRelativeTimesAndAPager(t *testing.T) {
	t.Parallel()
	server := clientServer(t)
	server.createBuild(t, "")
	shown, status := onScreen(t, server, nil, "build", "list").end()
	if status != 0 || !strings.Contains(shown, "\x1b[1mPIPELINE\x1b[0m") || !strings.Contains(shown, "\x1b[36mblocked (passed)\x1b[0m") {
		t.Errorf("exit status %d: %q", status, shown)
	}
	if !strings.Contains(shown, " ago ") && !strings.Contains(shown, "now ") {
		t.Errorf("the time is not relative: %q", shown)
	}
	token := "STACKYARD_TOKEN=svcua_ada-everything"
	shown, _ = onScreen(t, server, []string{token, "NO_COLOR=1"}, "build", "list").end()
	if strings.Contains(shown, "\x1b") {
		t.Errorf("NO_COLOR is set: %q", shown)
	}
	shown, _ = onScreen(t, server, []string{token, "STACKYARD_PAGER=sed s/hello/paged/"}, "build", "list").end()
	if !strings.Contains(shown, "paged") {
		t.Errorf("the pager is not used: %q", shown)
	}
}

func TestTerminal_AsksBeforeDestroying(t *testing.T) {
	t.Parallel()
	server := clientServer(t)
	for _, test := range []struct {
		answer, want string
		status       int
	}{{"n", "nothing was changed", 1}, {"", "nothing was changed", 1}, {"y", "Deleted hello.", 0}} {
		s := onScreen(t, server, nil, "pipeline", "delete", "hello")
		s.await("Delete the pipeline hello and all its builds? [y/N] ")
		s.answer(test.answer)
		if shown, status := s.end(); status != test.status || !strings.Contains(shown, test.want) {
			t.Errorf("answer %q: exit status %d, %q", test.answer, status, shown)
		}
	}
}

func TestTerminal_UnblockAsksForFields(t *testing.T) {
	t.Parallel()
	server := clientServer(t)
	server.createBuild(t, "")
	s := onScreen(t, server, nil, "job", "unblock", "hello", "1", "Ready?")
	s.await("Why: ")
	s.answer("because")
	if shown, status := s.end(); status != 0 || !strings.Contains(shown, "unblocked") {
		t.Errorf("exit status %d: %q", status, shown)
	}
}

func TestTerminal_OffersToSignInAgain(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	if output, ok := term.login(t, func(code string) { term.decide(t, code, "approve") }); !ok {
		t.Fatal(output)
	}
	stored := term.stored(t)
	for _, token := range []string{stored.AccessToken, stored.RefreshToken} {
		res, err := http.PostForm(term.server.URL+"/oauth/revoke", map[string][]string{"token": {token}, "client_id": {"stackyard-cli"}})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	s := onScreen(t, term.server, []string{"STACKYARD_TOKEN=", "STACKYARD_CONFIG_DIR=" + term.folder, "BROWSER=true"}, "pipeline", "list")
	s.await("Sign in again? [Y/n] ")
	s.answer("")
	s.await("║\r\n    ╚")
	code := s.seen.String()
	code = code[strings.LastIndex(code, "║  ")+len("║  "):]
	code, _, _ = strings.Cut(code, "  ║")
	term.decide(t, strings.ReplaceAll(code, " ", ""), "approve")
	if shown, status := s.end(); status != 0 || !strings.Contains(shown, "hello") {
		t.Errorf("exit status %d: %q", status, shown)
	}
}

func TestTerminal_WatchShowsATreeAndTheEndOfAFailedLog(t *testing.T) {
	t.Parallel()
	server := clientServer(t)
	server.createBuild(t, `"{env: {SERVICE_SKIP_CHECKOUT: \"true\"}, steps: [{label: good, key: good, command: \"true\"}, {label: bad, command: \"echo bad luck; exit 7\"}, {block: \"Go?\", depends_on: good, fields: [{text: Where, key: where}]}]}"`)
	s := onScreen(t, server, nil, "build", "watch", "hello", "1")
	s.await("○ good")
	agent := launch(t, "agent", "--endpoint", server.URL+"/v3", "--token", "svcct_machines", "--build-path", t.TempDir())
	defer agent.terminate(t)
	s.await("Nothing more happens until \"Go?\" is unblocked:")
	s.await("  stackyard job unblock hello 1 'Go?' --field where=VALUE")
	for _, want := range []string{"✗ bad", "failed (7)", "✓ good", "bad luck", "\x1b[31m", "\x1b[J"} {
		if !strings.Contains(s.seen.String(), want) {
			t.Errorf("%q was not shown: %q", want, s.seen.String())
		}
	}
	if n := strings.Count(s.seen.String(), "All of it: stackyard job log"); n != 1 {
		t.Errorf("the end of the log was shown %d times", n)
	}

	// Ctrl-C stops watching, not the build.
	s.file.Write([]byte{3})
	before := s.seen.Len()
	shown, status := s.end()
	if status != 130 || strings.Contains(shown[before:], "stackyard:") {
		t.Errorf("exit status %d after Ctrl-C: %q", status, shown[before:])
	}
	if got := server.get(t, "svcua_ada-everything", "/v2/organizations/acme/pipelines/hello/builds/1"); !strings.Contains(string(got.Body), `"blocked":true`) {
		t.Errorf("the build is not blocked any more: %s", got.Body)
	}

	s = onScreen(t, server, nil, "build", "watch", "hello", "1")
	s.await("Nothing more happens")
	server.ask(t, "svcua_ada-everything", "PUT", "/v2/organizations/acme/pipelines/hello/builds/1/cancel", "").want(t, http.StatusOK)
	if shown, status := s.end(); status != 1 || !strings.Contains(shown, "stackyard: build 1 is ") {
		t.Errorf("exit status %d: %q", status, shown)
	}
}

func TestTerminal_DownloadsShowABar(t *testing.T) {
	t.Parallel()
	server := clientServer(t)
	server.createBuild(t, `"{env: {SERVICE_SKIP_CHECKOUT: \"true\"}, steps: [{label: make, command: \"head -c 3000000 /dev/zero > big.bin\", artifact_paths: big.bin}]}"`)
	agent := launch(t, "agent", "--endpoint", server.URL+"/v3", "--token", "svcct_machines", "--build-path", t.TempDir())
	defer agent.terminate(t)
	onScreen(t, server, nil, "build", "watch", "hello", "1").end()
	shown, status := onScreen(t, server, nil, "artifact", "download", "hello", "1", "--dir", t.TempDir()).end()
	if status != 0 || !strings.Contains(shown, "Downloading [") || !strings.Contains(shown, "100%  2.9 MiB of 2.9 MiB") || !strings.Contains(shown, "big.bin (2.9 MiB)") {
		t.Errorf("exit status %d: %q", status, shown)
	}
}

func TestTerminal_WatchSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	address, data := anAddress(t), t.TempDir()
	serve := func() *process {
		return start(t, "serve", "--listen", address, "--data", data, "--apply", clientOrganizations)
	}
	server := serve()
	server.createBuild(t, "")
	s := onScreen(t, server, nil, "build", "watch", "hello", "1")
	s.await("Nothing more happens")
	server.stop(t)
	s.await("cannot reach http://" + address + ": connection refused; is the server running?\r\nTrying again.")
	server = serve()
	server.ask(t, "svcua_ada-everything", "PUT", "/v2/organizations/acme/pipelines/hello/builds/1/cancel", "").want(t, http.StatusOK)
	if shown, status := s.end(); status != 1 || !strings.Contains(shown, "stackyard: build 1 is canceled") {
		t.Errorf("exit status %d: %q", status, shown)
	}
}
