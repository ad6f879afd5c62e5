package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waitLimit is how long a test waits for something that should happen at once. Long fault injection, which runs beside
// other work, waits longer.
var waitLimit = 30 * time.Second

// A process is a running program.
type process struct {
	URL   string // from its ready line
	cmd   *exec.Cmd
	lines chan string // of its standard output
	ended chan struct{}
	log   string // file with its standard error
}

// start starts the program and waits for its ready line.
func start(t testing.TB, args ...string) *process {
	t.Helper()
	p := launch(t, args...)
	p.waitReady(t)
	return p
}

// launch starts the program.
func launch(t testing.TB, args ...string) *process {
	t.Helper()
	return spawn(t, command(args...))
}

// spawn starts a command. It is killed at the end of the test.
func spawn(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, lines: make(chan string, 1000), ended: make(chan struct{}), log: stderr.Name()}
	go func() {
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
		cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		stderr.Close()
		if log, err := os.ReadFile(stderr.Name()); err == nil && len(log) > 0 && t.Failed() {
			t.Logf("%s wrote to standard error:\n%s", cmd, log[max(0, len(log)-1000):])
		}
	})
	return p
}

// command returns the program without the environment settings of the test process.
func command(args ...string) *exec.Cmd { return program("stackyard", args...) }

// program is command for a name of the program in TestMain.
func program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STACKYARD_") })
	return cmd
}

func (p *process) waitReady(t testing.TB) {
	t.Helper()
	for {
		line := p.line(t)
		if url, ok := strings.CutPrefix(line, "listening on "); ok {
			p.URL = url
			return
		}
	}
}

// line returns the next line of standard output.
func (p *process) line(t testing.TB) string {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			<-p.ended
			t.Fatalf("the program ended: %s", p.cmd.ProcessState)
		}
		return line
	case <-time.After(waitLimit):
		t.Fatal("the program printed nothing more")
	}
	panic("unreachable")
}

// terminate sends SIGTERM.
func (p *process) terminate(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// wait waits until the program has exited successfully.
func (p *process) wait(t testing.TB) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(waitLimit):
		t.Fatal("the program does not end")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("the program ended with %s", p.cmd.ProcessState)
	}
}

// stop stops the program as an operator does.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.terminate(t)
	p.wait(t)
}

// kill sends SIGKILL.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// stackyard runs the program until it exits.
func stackyard(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := command(args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// apply applies an organization file to an installation.
func apply(t testing.TB, installation []string, file string) (stdout string) {
	t.Helper()
	status, stdout, stderr := stackyard(t, append([]string{"apply", "-f", write(t, file)}, installation...)...)
	if status != 0 {
		t.Fatalf("apply: exit status %d\n%s", status, stderr)
	}
	return stdout
}

// write writes a file and returns its path.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An answer is the program's response to a request.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
	what   string
}

// httpClient accepts any certificate.
var httpClient = &http.Client{Transport: &http.Transport{
	MaxIdleConnsPerHost: 100,
	TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
}}

// try sends a request with a token of a user or an agent, unless it is empty.
func (p *process) try(token, method, path, body string) (answer, error) {
	req, err := http.NewRequest(method, p.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	switch {
	case strings.HasPrefix(token, "svcct_"):
		req.Header.Set("Authorization", "Token "+token)
	case token != "":
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return send(httpClient, req)
}

func send(client *http.Client, req *http.Request) (answer, error) {
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{Status: resp.StatusCode, Header: resp.Header, Body: body, what: req.Method + " " + req.URL.Path}, err
}

// get gets a path and expects status 200.
func (p *process) get(t testing.TB, token, path string) answer {
	t.Helper()
	return p.ask(t, token, "GET", path, "").want(t, http.StatusOK)
}

// ask sends a request.
func (p *process) ask(t testing.TB, token, method, path, body string) answer {
	t.Helper()
	a, err := p.try(token, method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// want checks the status of the response.
func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.Status != status {
		t.Fatalf("%s: status %d, want %d; body %s", a.what, a.Status, status, a.Body)
	}
	return a
}

// decode decodes the body as JSON.
func decode[T any](t testing.TB, a answer) (v T) {
	t.Helper()
	if err := json.Unmarshal(a.Body, &v); err != nil {
		t.Fatalf("%s: %v in %s", a.what, err, a.Body)
	}
	return v
}

// eventually waits for a condition.
func eventually(t testing.TB, within time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
