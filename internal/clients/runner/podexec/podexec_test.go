package podexec

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"stackyard/internal/clients/runner/process"
)

// connect starts a server, as the other container does, and connects to it.
func connect(t *testing.T) (conn *Conn, served func() error) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "command.sock")
	result := make(chan error, 1)
	go func() { result <- Serve(t.Context(), socket, []string{"/bin/sh", "-e", "-c"}) }()
	conn, err := Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, sync.OnceValue(func() error { return <-result })
}

func TestRun_ReturnsOutputAndStatus(t *testing.T) {
	conn, served := connect(t)
	for _, tc := range []struct {
		name, script string
		output       string
		want         process.Result
	}{
		{"output", "echo hello", "hello\r\n", process.Result{}},
		{"status", "exit 7", "", process.Result{ExitStatus: 7}},
		{"signal", "kill -KILL $$", "", process.Result{ExitStatus: -1, Signal: syscall.SIGKILL}},
		{"variables", "echo $GREETING", "good morning\r\n", process.Result{}},
		{"the container's own PATH behind the job's commands", `case "$PATH" in /job/bin:*) echo first;; esac; [ "$HOME" = /elsewhere ] || echo own home`, "first\r\nown home\r\n", process.Result{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var output bytes.Buffer
			got, err := conn.Run(tc.script, t.TempDir(), []string{"GREETING=good morning", "SERVICE_BIN_PATH=/job/bin", "PATH=/nowhere", "HOME=/elsewhere"}, &output, process.Stop{})
			if err != nil || got != tc.want || output.String() != tc.output {
				t.Errorf("got %+v, %q, %v; want %+v, %q", got, output.String(), err, tc.want, tc.output)
			}
		})
	}
	conn.Close()
	if err := served(); err != nil {
		t.Errorf("the server ended with %v after the agent disconnected", err)
	}
}

// A lineWriter closes a channel when it has seen a text.
type lineWriter struct {
	bytes.Buffer
	text string
	seen chan struct{}
	once sync.Once
}

func (w *lineWriter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.once.Do(func() { close(w.seen) })
	}
	return n, err
}

func TestRun_StopsWithTermThenKill(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		kill   bool
		want   process.Result
	}{
		"handles SIGTERM": {`trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done`, false, process.Result{ExitStatus: 3}},
		"must be killed":  {`trap '' TERM; echo ready; while :; do sleep 0.01; done`, true, process.Result{ExitStatus: -1, Signal: syscall.SIGKILL, Killed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _ := connect(t)
			term, kill := make(chan struct{}), make(chan struct{})
			output := &lineWriter{text: "ready", seen: make(chan struct{})}
			go func() {
				<-output.seen
				close(term)
				if tc.kill {
					close(kill)
				}
			}()
			got, err := conn.Run(tc.script, t.TempDir(), nil, output, process.Stop{Term: term, Kill: kill})
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestServe_EndsProcessesWhenTheAgentIsGone(t *testing.T) {
	conn, served := connect(t)
	output := &lineWriter{text: "ready", seen: make(chan struct{})}
	go conn.Run("echo ready; sleep 1000", t.TempDir(), nil, output, process.Stop{})
	<-output.seen
	conn.Close()
	if err := served(); err != nil { // it returns only after its processes have ended
		t.Error(err)
	}
}

func TestRun_ExplainsAContainerThatEnded(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "command.sock")
	ctx, end := context.WithCancel(t.Context())
	go Serve(ctx, socket, []string{"/bin/sh", "-c"})
	conn, err := Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	output := &lineWriter{text: "ready", seen: make(chan struct{})}
	go func() {
		<-output.seen
		end()
	}()
	if _, err = conn.Run("echo ready; sleep 1000", t.TempDir(), nil, output, process.Stop{}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got the error %v", err)
	}
}
