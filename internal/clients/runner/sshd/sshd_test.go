package sshd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// connect serves a connection in a directory and signs in to it. Serving ends with the test or the client.
func connect(t *testing.T, change func(*Server, *ssh.ClientConfig)) (client *ssh.Client, dir string, served <-chan error, err error) {
	t.Helper()
	host, _, err := NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := NewHostKey() // any key is fine
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	server := &Server{
		HostKey: host, User: key.PublicKey(), Username: "ci", Shell: "/bin/sh", Dir: dir,
		Env: map[string]string{"PATH": os.Getenv("PATH"), "GREETING": "hello"}, Marker: "TEST_SESSION=" + dir, Log: slog.New(slog.DiscardHandler),
	}
	config := &ssh.ClientConfig{User: "ci", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host.PublicKey())}
	if change != nil {
		change(server, config)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = server.Serve(ctx, conn)
		}
		ended <- err
	}()
	client, err = ssh.Dial("tcp", listener.Addr().String(), config)
	if err == nil {
		t.Cleanup(func() { client.Close() })
	}
	return client, dir, ended, err
}

func newSession(t *testing.T, client *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestServe_RunsCommandsInTheEnvironmentOfTheJob(t *testing.T) {
	client, dir, _, err := connect(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, client)
	var out, problems bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader("input"), &out, &problems
	err = s.Run("cat; echo; echo $GREETING in $(pwd); echo no >&2; exit 7")
	exit, ok := errors.AsType[*ssh.ExitError](err)
	if !ok || exit.ExitStatus() != 7 || out.String() != "input\nhello in "+dir+"\n" || problems.String() != "no\n" {
		t.Errorf("it printed %q and %q, and ended with %v", out.String(), problems.String(), err)
	}
	s = newSession(t, client)
	exit, ok = errors.AsType[*ssh.ExitError](s.Run("kill -TERM $$"))
	if !ok || exit.Signal() != "TERM" {
		t.Errorf("a command that a signal ended was reported as %v", exit)
	}
}

func TestServe_AcceptsVariablesOfTheLanguageOnly(t *testing.T) {
	client, _, _, err := connect(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, client)
	for name, accepted := range map[string]bool{"LANG": true, "LC_ALL": true, "PATH": false, "LD_PRELOAD": false} {
		if err := s.Setenv(name, "C"); (err == nil) != accepted {
			t.Errorf("%s: %v", name, err)
		}
	}
	out, err := s.Output("echo $LANG $LC_ALL $LD_PRELOAD")
	if err != nil || string(out) != "C C\n" {
		t.Errorf("it printed %q, %v", out, err)
	}
}

func TestServe_HasTerminalsThatChangeTheirSize(t *testing.T) {
	client, _, _, err := connect(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, client)
	if err := s.RequestPty("xterm", 40, 123, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	input, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("echo $TERM; stty size; read line; stty size"); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	for buffer := make([]byte, 100); !strings.Contains(seen.String(), "40 123"); {
		n, err := output.Read(buffer)
		seen.Write(buffer[:n])
		if err != nil {
			t.Fatalf("it ended after %q: %v", seen.String(), err)
		}
	}
	if err := s.WindowChange(50, 99); err != nil {
		t.Fatal(err)
	}
	io.WriteString(input, "go\n")
	io.Copy(&seen, output)
	if err := s.Wait(); err != nil || !strings.Contains(seen.String(), "xterm") || !strings.Contains(seen.String(), "50 99") {
		t.Errorf("it printed %q, %v", seen.String(), err)
	}
}

func TestServe_RefusesOtherKeysAndNames(t *testing.T) {
	other, _, err := NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Server, *ssh.ClientConfig){
		"key":      func(_ *Server, c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.PublicKeys(other)} },
		"name":     func(_ *Server, c *ssh.ClientConfig) { c.User = "root" },
		"password": func(_ *Server, c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.Password("")} },
	} {
		if _, _, served, err := connect(t, change); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
			t.Errorf("%s: got %v", name, err)
		} else if err := <-served; err == nil {
			t.Errorf("%s: the server accepted it", name)
		}
	}
}

func TestServe_ForwardsNothingAndBoundsItsChannels(t *testing.T) {
	client, _, _, err := connect(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Dial("tcp", "127.0.0.1:22"); err == nil || !strings.Contains(err.Error(), "only shells and commands are possible") {
		t.Errorf("a port is forwarded: %v", err)
	}
	if _, err := client.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("a port is forwarded back")
	}
	for range maxChannels {
		newSession(t, client)
	}
	if _, err := client.NewSession(); err == nil || !strings.Contains(err.Error(), "at most 10 shells and commands") {
		t.Errorf("one channel too many: %v", err)
	}
}

func TestServe_EndsAllProcessesWithTheConnection(t *testing.T) {
	client, dir, served, err := connect(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, client)
	output, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pids := filepath.Join(dir, "pids")
	if err := s.Start("setsid sleep 654 & echo $! >" + pids + "; sleep 655 & echo $! >>" + pids + "; echo up; wait"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(output, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	client.Close()
	<-served
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(text)) {
		// They are killed, and gone as soon as their parent has noticed.
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || bytes.Contains(stat, []byte(") Z ")) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("process %s still runs", pid)
			}
		}
	}
}
