// Package process runs the processes of jobs: each on a pseudo-terminal and in a process group of its
// own, so that programs show what they show to people, and so that all of a group can be stopped.
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

	"stackyard/internal/clients/runner/osuser"
)

// A Command is a program to run.
type Command struct {
	Args   []string // the program first
	Dir    string
	Env    []string
	Output io.Writer    // what it writes to its terminal
	User   *osuser.User // nil: that of this process
}

// Stop says when a running process has to end. A channel that is nil never says so.
type Stop struct {
	Ask  <-chan struct{} // closed: the whole group is sent SIGTERM
	Kill <-chan struct{} // closed: the whole group is sent SIGKILL
}

// Within returns a Stop that also asks when a time has passed, and kills when a grace period has passed after
// that. expired reports whether the time was the reason; release frees what the Stop uses.
func (s Stop) Within(d, grace time.Duration) (limited Stop, expired func() bool, release func()) {
	ask, kill, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var over atomic.Bool
	go func() {
		limit := time.NewTimer(d)
		defer limit.Stop()
		var graceOver <-chan time.Time
		select {
		case <-s.Ask:
		case <-s.Kill:
		case <-limit.C:
			over.Store(true)
			graceOver = time.After(grace)
		case <-released:
			return
		}
		close(ask)
		select {
		case <-s.Kill:
		case <-graceOver:
		case <-released:
			return
		}
		close(kill)
	}()
	return Stop{Ask: ask, Kill: kill}, over.Load, func() { close(released) }
}

// A Result is how a process ended.
type Result struct {
	ExitStatus int            // -1 when a signal ended it
	Signal     syscall.Signal // that ended it; 0 when it ended by itself
	Killed     bool           // it, or others of its group, had to be killed
}

// The size of terminals.
var size = &pty.Winsize{Rows: 100, Cols: 160}

// Run runs a command until it has ended. Others of its group do not outlive it: they are killed, after
// it was asked to stop only when Stop says so, because they may be busy cleaning up.
func Run(c Command, stop Stop) (Result, error) {
	terminal, tty, err := openTerminal()
	if err != nil {
		return Result{}, err
	}
	defer terminal.Close()
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	// A group of its own but no session: a shell that leads a session makes the terminal its controlling
	// one, and when it ends the kernel hangs up on its children, who may still be about to clean up.
	cmd.SysProcAttr = c.User.Attributes()
	if c.User != nil { // who may open the terminal anew, as /dev/stderr
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
	return result(cmd.ProcessState, killed), err
}

// supervise waits for a process, stops it when it is told to, and ends what is left of its group. It
// reports whether anything had to be killed that was asked to stop.
func supervise(cmd *exec.Cmd, stop Stop) (killed bool) {
	group := cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	asked := false
	for ask := stop.Ask; ; {
		select {
		case <-ask:
			asked, ask = true, nil
			signalGroup(group, syscall.SIGTERM)
			signalGroup(group, syscall.SIGCONT) // who is stopped cannot listen
		case <-stop.Kill:
			killed = signalGroup(group, syscall.SIGKILL)
			<-ended
			return killed
		case <-ended:
			if asked && !emptied(group, stop.Kill) {
				killed = true
			}
			signalGroup(group, syscall.SIGKILL)
			return killed
		}
	}
}

// emptied waits until nobody is left in a group, or for kill, and reports which.
func emptied(group int, kill <-chan struct{}) bool {
	// Nothing tells when a group is empty.
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for signalGroup(group, 0) {
		select {
		case <-look.C:
			// In a container where the agent is process 1, the dead of the group are its to bury.
			syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		case <-kill:
			return false
		}
	}
	return true
}

// signalGroup sends a signal to a group and reports whether there was anybody in it.
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

// openTerminal opens a pseudo-terminal: our side, which can be waited for with deadlines, and that of
// the process.
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

// pollable returns a file for the same thing which the runtime polls. The library leaves its files in
// blocking mode, in which a read cannot be interrupted.
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

// A tail reads a terminal to its end. That comes by itself when nobody has the terminal open any more;
// a daemon that left the group may keep it open for ever, though.
type tail struct{ terminal *os.File }

// How long to wait for more after the process has ended: quiet means that nothing comes.
const (
	quiet  = 200 * time.Millisecond
	utmost = 2 * time.Second
)

// expectEnd is called when the process has ended.
func (t *tail) expectEnd() { t.terminal.SetReadDeadline(time.Now().Add(quiet)) }

// copyTo copies what is written on the terminal. It reads on when that fails: a process whose terminal is
// full would wait for ever.
func (t *tail) copyTo(out io.Writer) (failed error) {
	buffer := make([]byte, 32<<10)
	var ending time.Time // when it turned out that the process has ended
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
			return failed // EIO, which is how a terminal says that it is closed
		case silent, !ending.IsZero() && time.Since(ending) > utmost:
			return failed
		default:
			// The deadline may have passed while out took its time: see whether there is more.
			silent = true
			if ending.IsZero() {
				ending = time.Now()
			}
			t.expectEnd()
		}
	}
}
