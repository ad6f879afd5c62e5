// Package supervise runs one agent on a machine of a provider, independent of the connection that started it.
//
// The provider runs commands over SSH: start, wait and stop. Start creates a folder for the agent and leaves a process
// there, the supervisor (run.go). The supervisor holds a lock as long as the agent or a process of its job runs, and
// then writes the result. So the connection can break and the server can be replaced: wait returns the result to
// whoever asks, and stop leaves nothing behind.
package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"stackyard/internal/clients/runner/process"
)

// A Request describes the agent to run.
type Request struct {
	Env         map[string]string `json:"env"` // settings of the agent
	Token       string            `json:"token"`
	VNCPassword string            `json:"vnc_password"` // of the socket; "": the machine has no desktop
}

// A Result is how an agent ended.
type Result struct {
	Started bool   `json:"started"`
	Error   string `json:"error"`  // "": it exited with status 0
	Output  string `json:"output"` // the end of what it printed
}

// An Agent is the agent of one machine.
type Agent struct {
	id      string
	dir     string
	program string // this program
}

var machineID = regexp.MustCompile(`^[0-9a-f-]{36}$`)

// Of returns the agent with the id of its machine. Its files are in a folder of that name.
func Of(folder, id, program string) (Agent, error) {
	if !machineID.MatchString(id) {
		return Agent{}, fmt.Errorf("%q is not the id of a machine", id)
	}
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return Agent{}, err
		}
		folder = filepath.Join(home, ".stackyard", "machines")
	}
	dir, err := filepath.Abs(filepath.Join(folder, id))
	return Agent{id, dir, program}, err
}

func (a Agent) path(name string) string { return filepath.Join(a.dir, name) }

// temp is the folder for temporary files of the agent and its job. It has a short name, because names of sockets are
// limited to about a hundred bytes.
func (a Agent) temp() string { return "/tmp/stackyard-" + a.id }

// makeTemp creates the folder for temporary files, in which no other user can write.
func (a Agent) makeTemp() error {
	err := os.Mkdir(a.temp(), 0o700)
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	about, err := os.Lstat(a.temp())
	if err != nil {
		return err
	}
	if owner, ok := about.Sys().(*syscall.Stat_t); !about.IsDir() || !ok || int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s does not belong to this user", a.temp())
	}
	return nil
}

// socket is the socket of the machine's desktop.
func (a Agent) socket() string { return filepath.Join(a.temp(), "vnc.sock") }

// PrepareSocket returns the path of the machine's desktop, on which the provider will listen.
func (a Agent) PrepareSocket() (string, error) {
	if err := a.makeTemp(); err != nil {
		return "", err
	}
	if err := os.Remove(a.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return a.socket(), nil
}

// Start starts the agent. It does nothing if the agent was started before.
func (a Agent) Start(r Request) error {
	if err := os.MkdirAll(filepath.Dir(a.dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(a.dir, 0o700); errors.Is(err, os.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := a.makeTemp(); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	output, err := os.OpenFile(a.path("output"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	ready, started, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(a.program, "machine", "run", "--folder", filepath.Dir(a.dir), a.id)
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.dir, output, output
	cmd.ExtraFiles = []*os.File{started}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	started.Close()
	if err != nil {
		return err
	}
	_, err = input.Write(text)
	input.Close()
	if err != nil {
		return err
	}
	if said, _ := io.ReadAll(ready); string(said) != readyText {
		cmd.Wait()
		return fmt.Errorf("the agent was not started: %s", a.output())
	}
	return cmd.Process.Release()
}

// readyText is what the supervisor writes when it holds the lock.
const readyText = "ready"

// Wait waits until the agent has ended, and returns how.
func (a Agent) Wait() (r Result, err error) {
	lock, err := os.OpenFile(a.path("lock"), os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer lock.Close()
	if err := flock(lock, syscall.LOCK_EX); err != nil {
		return r, err
	}
	r.Started, r.Error, r.Output = true, "the agent was killed", a.output()
	text, err := os.ReadFile(a.path("result"))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		r.Error = strings.TrimSpace(string(text))
	}
	return r, err
}

// flock locks a file, also when signals interrupt it.
func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// stopTime is how long a supervisor has to end.
const stopTime = 10 * time.Second

// Stop ends the agent and the processes of its job, and removes its folders.
func (a Agent) Stop() error {
	lock, err := os.OpenFile(a.path("lock"), os.O_RDWR, 0o600)
	switch {
	case err == nil:
		defer lock.Close()
		err = a.end(lock)
	case errors.Is(err, os.ErrNotExist):
		err = nil
	}
	process.KillMarked(a.marker())
	return errors.Join(err, os.RemoveAll(a.temp()), os.RemoveAll(a.dir))
}

// end ends the supervisor, which holds the lock.
func (a Agent) end(lock *os.File) error {
	for deadline, signal := time.Now().Add(stopTime), syscall.SIGTERM; ; time.Sleep(20 * time.Millisecond) {
		if err := flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return nil
		}
		text, err := os.ReadFile(a.path("pid"))
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || pid <= 1 {
			return fmt.Errorf("%s: %q is not the id of a process", a.path("pid"), text)
		}
		if time.Now().After(deadline) {
			signal = syscall.SIGKILL
		}
		syscall.Kill(pid, signal)
	}
}

// marker is the variable that identifies the processes of the agent.
func (a Agent) marker() string { return "STACKYARD_MACHINE=" + a.id }

// maxOutput bounds the output that is returned.
const maxOutput = 4000

// output returns the end of what the agent printed.
func (a Agent) output() string {
	file, err := os.Open(a.path("output"))
	if err != nil {
		return ""
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		file.Seek(max(0, size-maxOutput), io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(file, maxOutput))
	return strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD"))
}
