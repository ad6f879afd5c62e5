package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A screen stores the output of a process and signals changes.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until a text has appeared.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for !strings.Contains(s.String(), text) {
		select {
		case <-s.changed:
		case <-timeout:
			t.Fatalf("%q has not appeared in %q", text, s)
		}
	}
}

func shell(script string, out *screen) Command {
	return Command{Args: []string{"/bin/bash", "-e", "-c", script}, Env: os.Environ(), Output: out}
}

// run runs a script to its end.
func run(t *testing.T, script string, stop Stop) (Result, string) {
	t.Helper()
	out := newScreen()
	r, err := Run(shell(script, out), stop)
	if err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

func TestRun_ReturnsHowAProcessEnded(t *testing.T) {
	tests := []struct {
		script string
		want   Result
	}{
		{"true", Result{}},
		{"exit 7", Result{ExitStatus: 7}},
		{"false; echo not reached", Result{ExitStatus: 1}},
		{"kill -9 $$", Result{ExitStatus: -1, Signal: syscall.SIGKILL}},
		{"kill -TERM $$", Result{ExitStatus: -1, Signal: syscall.SIGTERM}},
	}
	for _, tt := range tests {
		if got, out := run(t, tt.script, Stop{}); got != tt.want {
			t.Errorf("%s: got %+v, want %+v; output %q", tt.script, got, tt.want, out)
		}
	}
}

func TestRun_GivesATerminalOfItsOwn(t *testing.T) {
	_, out := run(t, "test -t 0 && test -t 1 && test -t 2 && echo a terminal; stty size", Stop{})
	if out != "a terminal\r\n100 160\r\n" {
		t.Errorf("output %q", out)
	}
}

func TestRun_UsesFolderAndEnvironment(t *testing.T) {
	dir := t.TempDir()
	out := newScreen()
	_, err := Run(Command{Args: []string{"/bin/sh", "-c", "pwd; echo $NAME"}, Dir: dir, Env: []string{"NAME=value"}, Output: out}, Stop{})
	if err != nil || out.String() != dir+"\r\nvalue\r\n" {
		t.Errorf("output %q, %v", out, err)
	}
}

func TestRun_ShowsAllOutputHoweverMuchThereIs(t *testing.T) {
	_, out := run(t, "seq 1 100000", Stop{})
	if !strings.HasPrefix(out, "1\r\n2\r\n") || !strings.HasSuffix(out, "\r\n100000\r\n") || strings.Count(out, "\n") != 100000 {
		t.Errorf("%d lines, the last %q", strings.Count(out, "\n"), out[max(0, len(out)-20):])
	}
}

func TestRun_ReportsAProgramThatCannotBeStarted(t *testing.T) {
	_, err := Run(Command{Args: []string{filepath.Join(t.TempDir(), "nothing")}, Output: newScreen()}, Stop{})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestRun_EndsThoughItsOutputIsWantedNoMore(t *testing.T) {
	c := shell("seq 1 100000", nil)
	c.Output = broken{}
	if r, err := Run(c, Stop{}); !errors.Is(err, errBroken) || r != (Result{}) {
		t.Errorf("%+v, %v", r, err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestRun_KillsWhatTheProcessLeftInItsGroup(t *testing.T) {
	r, out := run(t, "sleep 1000 & echo $!", Stop{})
	if r != (Result{}) {
		t.Errorf("got %+v", r)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	waitForExit(t, pid)
}

func TestRun_EndsThoughADaemonKeepsTheTerminal(t *testing.T) {
	_, out := run(t, "setsid sleep 1000 & echo $!; exit 0", Stop{})
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the daemon is gone: %v", err)
	}
}

// waitForExit waits until a process has ended or is a zombie.
func waitForExit(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there: %s", pid, stat)
		}
	}
}

// start runs a script and returns after it has printed "ready".
func start(t *testing.T, script string, stop Stop) (*screen, <-chan Result) {
	t.Helper()
	out := newScreen()
	ended := make(chan Result, 1)
	go func() {
		r, err := Run(shell(script, out), stop)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	out.await(t, "ready")
	return out, ended
}

func TestStop_AsksTheWholeGroup(t *testing.T) {
	ask := make(chan struct{})
	out, ended := start(t, `
		trap 'echo shell stops; wait; exit 3' TERM
		(trap 'echo child stops; exit 0' TERM; echo ready; while :; do sleep 0.01; done) &
		wait`, Stop{Term: ask})
	close(ask)
	if r := <-ended; r != (Result{ExitStatus: 3}) {
		t.Errorf("got %+v; output %q", r, out)
	}
	if text := out.String(); !strings.Contains(text, "child stops") || !strings.Contains(text, "shell stops") {
		t.Errorf("output %q", text)
	}
}

func TestStop_LetsChildrenCleanUpAfterTheShellHasEnded(t *testing.T) {
	ask := make(chan struct{})
	out, ended := start(t, `bash -c 'trap "sleep 0.3; echo cleaned up; exit 0" TERM; echo ready; while :; do sleep 0.01; done'; true`, Stop{Term: ask})
	close(ask)
	r := <-ended
	if r.Signal != syscall.SIGTERM || r.Killed {
		t.Errorf("got %+v", r)
	}
	if text := out.String(); !strings.Contains(text, "cleaned up") {
		t.Errorf("output %q", text)
	}
}

func TestStop_KillsWhatDoesNotListen(t *testing.T) {
	for name, script := range map[string]string{
		"the shell": `trap '' TERM; echo ready; while :; do sleep 0.01; done`,
		"its child": `bash -c 'trap "" TERM; echo ready; while :; do sleep 0.01; done'; true`,
	} {
		ask, kill := make(chan struct{}), make(chan struct{})
		_, ended := start(t, script, Stop{Term: ask, Kill: kill})
		close(ask)
		select {
		case r := <-ended:
			t.Errorf("%s ended with %+v", name, r)
		case <-time.After(100 * time.Millisecond):
		}
		close(kill)
		if r := <-ended; !r.Killed {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

func TestStop_KillsAtOnceWithoutAsking(t *testing.T) {
	kill := make(chan struct{})
	_, ended := start(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`, Stop{Kill: kill})
	close(kill)
	if r := <-ended; !r.Killed || r.Signal != syscall.SIGKILL {
		t.Errorf("got %+v", r)
	}
}
