package supervise

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"stackyard/internal/clients/handoff"
	"stackyard/internal/clients/runner/process"
)

// maxRequest bounds a request.
const maxRequest = 64 << 10

// ReadRequest reads a request.
func ReadRequest(from io.Reader) (r Request, err error) {
	text, err := io.ReadAll(io.LimitReader(from, maxRequest))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the request: %w", err)
	}
	return r, nil
}

// Run is the supervisor: it runs the agent until the agent has ended or this process gets SIGTERM. Then it kills what
// the job has left, and writes the result.
func (a Agent) Run(r Request, ready *os.File) error {
	lock, err := os.OpenFile(a.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if err := os.WriteFile(a.path("pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return err
	}
	if err := adoptOrphans(); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	signal.Ignore(syscall.SIGHUP)
	io.WriteString(ready, readyText)
	ready.Close()

	result := ""
	if err := a.runAgent(r, stop); err != nil {
		result = err.Error()
	}
	killChildren()
	process.KillMarked(a.marker())
	temporary := a.path("result.new")
	if err := os.WriteFile(temporary, []byte(result), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, a.path("result"))
}

// runAgent runs the agent until it has ended. It kills the agent when this process is asked to stop.
func (a Agent) runAgent(r Request, stop <-chan os.Signal) error {
	cmd := exec.Command(a.program, "agent")
	cmd.Dir, cmd.Stdout, cmd.Stderr = a.dir, os.Stdout, os.Stderr
	cmd.Env = slices.DeleteFunc(os.Environ(), func(line string) bool {
		return strings.HasPrefix(line, "SSH_") || strings.HasPrefix(line, "SERVICE_") || strings.HasPrefix(line, "BUILDKITE_") || strings.HasPrefix(line, "STACKYARD_")
	})
	for name, value := range r.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+a.temp(), "SERVICE_AGENT_BUILD_PATH="+a.path("builds"), a.marker())
	secrets := map[string]string{"token": r.Token}
	if r.VNCPassword != "" {
		secrets["vnc-password"] = r.VNCPassword
		cmd.Env = append(cmd.Env, "SERVICE_AGENT_VNC_ADDRESS="+a.socket())
	}
	release, err := handoff.Attach(cmd, secrets)
	if err != nil {
		return err
	}
	defer release()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	dieWithParent(cmd.SysProcAttr)
	// On Linux, the kernel kills the agent when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-stop:
			process.KillSession(cmd.Process.Pid)
		case <-ended:
		}
	}()
	defer close(ended)
	return cmd.Wait()
}

// killChildren kills the processes that the job has left. They are children of this process, because it adopts orphans.
func killChildren() {
	for end := time.Now().Add(stopTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		children := process.Children(os.Getpid())
		if len(children) == 0 {
			return
		}
		for _, pid := range children {
			syscall.Kill(pid, syscall.SIGKILL)
			var status syscall.WaitStatus
			syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		}
	}
}
