package sshd

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"

	"stackyard/internal/clients/runner/osuser"
	"stackyard/internal/clients/runner/process"
)

// A session is one shell or command.
type session struct {
	*Server
	channel ssh.Channel

	size *pty.Winsize // nil: no terminal
	term string
	env  map[string]string // that the client set

	mu       sync.Mutex
	terminal *os.File
	process  *os.Process
}

// maxEnv bounds the variables that a client sets.
const maxEnv = 50

// serve handles the requests of a channel until it is closed.
func (s *session) serve(ctx context.Context, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.channel.Close()
	var running sync.WaitGroup
	for r := range requests {
		ok := false
		switch r.Type {
		case "pty-req":
			ok = s.setTerminal(r.Payload)
		case "window-change":
			s.resize(r.Payload)
		case "env":
			ok = s.setVariable(r.Payload)
		case "signal":
			s.signal(r.Payload)
		case "shell", "exec":
			var command struct{ Text string }
			if r.Type == "exec" && ssh.Unmarshal(r.Payload, &command) != nil || s.started() {
				break
			}
			ok = true
			r.Reply(true, nil) // before output
			r.WantReply = false
			cmd := s.command(command.Text)
			if err := s.start(cmd); err != nil {
				io.WriteString(s.channel.Stderr(), "The shell cannot be started: "+err.Error()+"\r\n")
				s.exit(127, "")
				continue
			}
			running.Go(func() { s.wait(ctx, cmd) })
		}
		if r.WantReply {
			r.Reply(ok, nil)
		}
	}
	cancel() // the client has closed the channel
	running.Wait()
}

func (s *session) started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil
}

// setTerminal handles a request for a terminal.
func (s *session) setTerminal(payload []byte) bool {
	var p struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if ssh.Unmarshal(payload, &p) != nil || s.started() {
		return false
	}
	s.term, s.size = p.Term, winsize(p.Columns, p.Rows)
	return true
}

// maxSide bounds the columns and rows of a terminal.
const maxSide = 2000

func winsize(columns, rows uint32) *pty.Winsize {
	return &pty.Winsize{Cols: uint16(min(max(columns, 1), maxSide)), Rows: uint16(min(max(rows, 1), maxSide))}
}

func (s *session) resize(payload []byte) {
	var p struct{ Columns, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &p) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = winsize(p.Columns, p.Rows)
	if s.terminal != nil {
		pty.Setsize(s.terminal, s.size)
	}
}

// setVariable accepts variables about the language of the client.
func (s *session) setVariable(payload []byte) bool {
	var p struct{ Name, Value string }
	if ssh.Unmarshal(payload, &p) != nil || len(s.env) >= maxEnv || len(p.Value) > 1<<10 {
		return false
	}
	if p.Name != "LANG" && p.Name != "COLORTERM" && (len(p.Name) < 4 || p.Name[:3] != "LC_") {
		return false
	}
	if s.env == nil {
		s.env = map[string]string{}
	}
	s.env[p.Name] = p.Value
	return true
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM,
}

func (s *session) signal(payload []byte) {
	var p struct{ Name string }
	if ssh.Unmarshal(payload, &p) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if number, ok := signals[p.Name]; ok && s.process != nil {
		syscall.Kill(-s.process.Pid, number)
	}
}

// command returns the process for a command, or for a shell if the text is empty.
func (s *session) command(text string) *exec.Cmd {
	cmd := exec.Command(s.Shell)
	if text != "" {
		cmd.Args = append(cmd.Args, "-c", text)
	}
	env := maps.Clone(s.Env)
	maps.Copy(env, s.env)
	env["SHELL"] = s.Shell
	if s.size != nil {
		env["TERM"] = s.term
	}
	cmd.Dir = s.Dir
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	cmd.Env = append(cmd.Env, s.Marker)
	cmd.SysProcAttr = attributes(s.RunAs)
	return cmd
}

// attributes make a process lead its own session, and run as a user unless that is nil.
func attributes(user *osuser.User) *syscall.SysProcAttr {
	a := user.Attributes()
	a.Setpgid, a.Setsid = false, true
	return a
}

// start starts a process, with a terminal if the client asked for one.
func (s *session) start(cmd *exec.Cmd) error {
	if s.size == nil {
		return s.startPlain(cmd)
	}
	terminal, tty, err := pty.Open()
	if err != nil {
		return err
	}
	defer tty.Close()
	if s.RunAs != nil {
		err = tty.Chown(int(s.RunAs.UID), -1)
	}
	err = errors.Join(err, pty.Setsize(terminal, s.size))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr.Setctty = true
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		terminal.Close()
		return err
	}
	s.mu.Lock()
	s.terminal, s.process = terminal, cmd.Process
	s.mu.Unlock()
	go io.Copy(terminal, s.channel)
	return nil
}

func (s *session) startPlain(cmd *exec.Cmd) error {
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = s.channel, s.channel.Stderr()
	cmd.WaitDelay = tailTime // a daemon may keep the pipes open
	if err := cmd.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.process = cmd.Process
	s.mu.Unlock()
	go func() {
		io.Copy(input, s.channel)
		input.Close()
	}()
	return nil
}

// tailTime is how long the output of a process is read after it has ended.
const tailTime = 500 * time.Millisecond

// wait waits for a process and reports how it ended. When ctx ends, it kills the process.
func (s *session) wait(ctx context.Context, cmd *exec.Cmd) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { process.KillSession(cmd.Process.Pid) })
	defer stop()
	copied := make(chan struct{})
	if s.terminal != nil {
		go func() {
			io.Copy(s.channel, s.terminal)
			close(copied)
		}()
	} else {
		close(copied)
	}
	go func() {
		cmd.Wait()
		close(ended)
	}()
	<-ended
	if s.terminal != nil {
		select {
		case <-copied:
		case <-time.After(tailTime):
		}
		s.mu.Lock()
		s.terminal.Close()
		s.terminal = nil
		s.mu.Unlock()
	}
	process.KillSession(cmd.Process.Pid)
	status, signal := cmd.ProcessState.ExitCode(), ""
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		for name, number := range signals {
			if number == w.Signal() {
				signal = name
			}
		}
		status = 128 + int(w.Signal())
	}
	s.exit(status, signal)
}

// exit tells the client how the process ended, and closes the channel.
func (s *session) exit(status int, signal string) {
	if signal != "" {
		s.channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name       string
			CoreDumped bool
			Message    string
			Language   string
		}{Name: signal}))
	} else {
		s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
	}
	s.channel.Close()
}
