// Package process runs the processes of jobs. Each has its own pseudo-terminal, so that programs behave as for
// a person, and its own process group, so that the whole group can be stopped.
package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"stackyard/internal/clients/runner/cgroup"
	"stackyard/internal/clients/runner/osuser"
)

// A Command is a program to run.
type Command struct {
	Args   []string // the program first
	Dir    string
	Env    []string
	Output io.Writer     // receives the terminal output
	User   *osuser.User  // nil: the user of this process
	Group  *cgroup.Group // nil: that of this process

	// Ended is called with how the process ended and what it used, unless it is nil.
	Ended func(*os.ProcessState)
}

// Stop stops a running process. A nil channel never does.
type Stop struct {
	Term <-chan struct{} // closed: the group gets SIGTERM
	Kill <-chan struct{} // closed: the group gets SIGKILL
}

// Within returns a Stop that also sends SIGTERM after d, and SIGKILL after another grace period. expired
// reports whether d was the reason; release frees its resources.
func (s Stop) Within(d, grace time.Duration) (limited Stop, expired func() bool, release func()) {
	term, kill, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	go func() {
		limit := time.NewTimer(d)
		defer limit.Stop()
		var graceOver <-chan time.Time
		select {
		case <-s.Term:
		case <-s.Kill:
		case <-limit.C:
			over.Store(true)
			graceOver = time.After(grace)
		case <-released:
			return
		}
		close(term)
		select {
		case <-s.Kill:
		case <-graceOver:
		case <-released:
			return
		}
		close(kill)
	}()
	return Stop{Term: term, Kill: kill}, over.Load, func() { close(released) }
}

// A Result is how a process ended.
type Result struct {
	ExitStatus int            // -1 if a signal ended it
	Signal     syscall.Signal // 0 if no signal ended it
	Killed     bool           // the process or others of its group had to be killed
}

// size is the size of terminals.
var size = &pty.Winsize{Rows: 100, Cols: 160}

// Run runs a command until it ends, then kills the rest of its group. If the group got SIGTERM, the rest is
// killed only when Stop says so, because it may be cleaning up.
func Run(c Command, stop Stop) (Result, error) {
	terminal, tty, err := openTerminal()
	if err != nil {
		return Result{}, err
	}
	defer terminal.Close()
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	// Use a process group but no session: a shell that leads a session makes the terminal its controlling
	// terminal, and when it ends, the kernel sends SIGHUP to its children, which may still be cleaning up.
	cmd.SysProcAttr = c.User.Attributes()
	c.Group.Attach(cmd.SysProcAttr)
	if c.User != nil { // the user may reopen the terminal, for example as /dev/stderr
		err = tty.Chown(int(c.User.UID), -1)
	}
	if err == nil {
		err = cmd.Start()
	}
	tty.Close()
	if err != nil {
		return Result{}, err
	}
	copied := make(chan error, 1)
	out := &tail{terminal: terminal}
	go func() { copied <- out.copyTo(c.Output) }()
	killed := supervise(cmd, stop)
	out.expectEnd()
	err = <-copied
	if c.Ended != nil {
		c.Ended(cmd.ProcessState)
	}
	return result(cmd.ProcessState, killed), err
}

// supervise waits for a process, stops it on request, and kills the rest of its group. It reports whether a
// process had to be killed after SIGTERM.
func supervise(cmd *exec.Cmd, stop Stop) (killed bool) {
	group := cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	terminated := false
	for term := stop.Term; ; {
		select {
		case <-term:
			terminated, term = true, nil
			signalGroup(group, syscall.SIGTERM)
			signalGroup(group, syscall.SIGCONT) // a stopped process cannot handle SIGTERM
		case <-stop.Kill:
			killed = signalGroup(group, syscall.SIGKILL)
			<-ended
			return killed
		case <-ended:
			if terminated && !waitForEmptyGroup(group, stop.Kill) {
				killed = true
			}
			signalGroup(group, syscall.SIGKILL)
			return killed
		}
	}
}

// waitForEmptyGroup waits until a group is empty, and returns false if kill comes first.
func waitForEmptyGroup(group int, kill <-chan struct{}) bool {
	// There is no notification for an empty group.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for signalGroup(group, 0) {
		select {
		case <-tick.C:
			// In a container where the agent is process 1, it must reap the group's zombies.
			syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		case <-kill:
			return false
		}
	}
	return true
}

// signalGroup sends a signal to a group and reports whether the group exists.
func signalGroup(group int, signal syscall.Signal) bool {
	return syscall.Kill(-group, signal) == nil
}

func result(state *os.ProcessState, killed bool) Result {
	r := Result{ExitStatus: state.ExitCode(), Killed: killed}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		r.Signal = status.Signal()
	}
	return r
}

// openTerminal opens a pseudo-terminal: our side, which supports read deadlines, and the side of the process.
func openTerminal() (ours, theirs *os.File, err error) {
	p, tty, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	if err = pty.Setsize(p, size); err == nil {
		ours, err = pollable(p)
	}
	if err != nil {
		tty.Close()
		return nil, nil, err
	}
	return ours, tty, nil
}

// pollable returns a duplicate of f that the runtime polls. The library leaves its files in blocking mode,
// where a read cannot be interrupted.
func pollable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// A tail reads a terminal to its end, which comes when no process has it open. A daemon that left the group may
// keep it open forever, so the tail also stops after silence.
type tail struct{ terminal *os.File }

// How long to read after the process has ended: until quiet passes without output, but at most maxTail.
const (
	quiet   = 200 * time.Millisecond
	maxTail = 2 * time.Second
)

// expectEnd starts the read deadline after the process has ended.
func (t *tail) expectEnd() { t.terminal.SetReadDeadline(time.Now().Add(quiet)) }

// copyTo copies the terminal output. It continues to read if writing fails: a process whose terminal is full
// would block forever.
func (t *tail) copyTo(out io.Writer) (failed error) {
	buffer := make([]byte, 32<<10)
	var ending time.Time // when the first deadline passed
	silent := false
	for {
		n, err := t.terminal.Read(buffer)
		if n > 0 {
			silent = false
			if _, err := out.Write(buffer[:n]); err != nil {
				failed = err
			}
		}
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return failed // EIO, when the terminal is closed
		case silent, !ending.IsZero() && time.Since(ending) > maxTail:
			return failed
		default:
			// The deadline may have passed while out was slow: check for more.
			silent = true
			if ending.IsZero() {
				ending = time.Now()
			}
			t.expectEnd()
		}
	}
}
