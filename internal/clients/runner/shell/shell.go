// Package shell runs the commands of a job one after the other and shows them in its log, as a person
// would see them who typed them.
package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/osuser"
	"stackyard/internal/clients/runner/process"
)

// A Shell has a folder, an environment, and a log to show things in.
type Shell struct {
	Log  io.Writer
	Dir  string
	Env  environ.Environment
	Stop process.Stop
	User *osuser.User // that commands run as; nil: that of this process

	// Killed says that one of the commands so far had to be killed.
	Killed bool
}

// ErrStopped says that a command was not begun, or did not end well, because the job has to stop.
var ErrStopped = errors.New("the job has to stop")

// An ExitError is a command that failed.
type ExitError struct {
	Command string
	process.Result
}

func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("%s was ended by the signal %s", e.Command, e.Signal)
	}
	return fmt.Sprintf("%s exited with status %d", e.Command, e.ExitStatus)
}

// The beginnings of a line that begins a section of the log.
const (
	Muted     = "~~~ " // collapsed, and not worth much attention
	Collapsed = "--- "
	Open      = "+++ "
	// Reopen opens the section that it stands in.
	Reopen = "^^^ +++"
)

// Section begins a section of the log.
func (s *Shell) Section(kind, title string) { s.printf("%s%s\r\n", kind, title) }

// Comment writes a line about what is done, and why.
func (s *Shell) Comment(format string, args ...any) {
	s.printf("\x1b[90m# %s\x1b[0m\r\n", fmt.Sprintf(format, args...))
}

// Prompt shows a command as if it were typed. What there is of it after the first line is shown as it is.
func (s *Shell) Prompt(command string) {
	s.printf("\x1b[90m$\x1b[0m %s\r\n", strings.ReplaceAll(command, "\n", "\r\n"))
}

// Warning writes a line that deserves attention.
func (s *Shell) Warning(format string, args ...any) {
	s.printf("\x1b[33m⚠ %s\x1b[0m\r\n", fmt.Sprintf(format, args...))
}

// Error writes why the job fails, and opens the section that it stands in.
func (s *Shell) Error(format string, args ...any) {
	s.printf("%s\r\n\x1b[31m✗ %s\x1b[0m\r\n", Reopen, fmt.Sprintf(format, args...))
}

// printf ignores errors: a log that cannot be written must not keep a job from running, and that parts
// of it are missing is reported with the job's result.
func (s *Shell) printf(format string, args ...any) { fmt.Fprintf(s.Log, format, args...) }

// Run shows a command, runs it on a terminal, and shows what it writes.
func (s *Shell) Run(args ...string) error {
	s.Prompt(Quote(args))
	return s.RunQuietly(args...)
}

// RunQuietly is Run without showing the command.
func (s *Shell) RunQuietly(args ...string) error {
	if s.Stopped() {
		return ErrStopped
	}
	path, err := s.lookUp(args[0])
	if err != nil {
		return err
	}
	result, err := process.Run(process.Command{
		Args:   append([]string{path}, args[1:]...),
		Dir:    s.Dir,
		Env:    s.Env.Lines(),
		Output: s.Log,
		User:   s.User,
	}, s.Stop)
	s.Killed = s.Killed || result.Killed
	switch {
	case err != nil:
		return fmt.Errorf("run %s: %w", args[0], err)
	case s.Stopped():
		return errors.Join(ErrStopped, &ExitError{args[0], result})
	case result.ExitStatus != 0:
		return &ExitError{args[0], result}
	}
	return nil
}

// outputTimeout bounds a quick command.
const outputTimeout = time.Minute

// Output runs a quick command and returns what it writes, without the line break at the end. The command is
// killed when it takes too long, or when the job has to stop.
func (s *Shell) Output(args ...string) (string, error) {
	path, err := s.lookUp(args[0])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), outputTimeout)
	defer cancel()
	go func() {
		select {
		case <-s.Stop.Ask:
		case <-s.Stop.Kill:
		case <-ctx.Done():
		}
		cancel()
	}()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args[1:]...)
	cmd.Dir, cmd.Env = s.Dir, s.Env.Lines()
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.SysProcAttr = s.User.Attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", Quote(args), err, strings.TrimSpace(problems.String()))
	}
	return strings.TrimRight(out.String(), "\r\n"), nil
}

// Give makes a file or folder that this process made the property of the user that commands run as.
func (s *Shell) Give(path string) error {
	if s.User == nil {
		return nil
	}
	return os.Lchown(path, int(s.User.UID), int(s.User.GID))
}

// Stopped reports whether the job has to stop.
func (s *Shell) Stopped() bool {
	select {
	case <-s.Stop.Ask:
		return true
	case <-s.Stop.Kill:
		return true
	default:
		return false
	}
}

// lookUp finds a program along the PATH of the job, which hooks may have changed.
func (s *Shell) lookUp(program string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for _, dir := range filepath.SplitList(s.Env["PATH"]) {
		path := filepath.Join(dir, program)
		if !filepath.IsAbs(path) {
			continue // a folder of the repository must not stand in for the system's
		}
		if about, err := os.Stat(path); err == nil && !about.IsDir() && about.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w along PATH", program, os.ErrNotExist)
}

// Quote writes a command as a person would type it.
func Quote(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\r\n'\"\\$&|;<>()*?[]{}~#!`") {
			words[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}
