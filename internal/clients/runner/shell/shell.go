// Package shell runs the commands of a job in sequence and shows them in its log, as if a person had typed
// them.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"stackyard/internal/clients/runner/cgroup"
	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/osuser"
	"stackyard/internal/clients/runner/process"
	"stackyard/internal/clients/runner/usage"
)

// A Shell has a directory, an environment and a log.
type Shell struct {
	Log  io.Writer
	Dir  string
	Env  environ.Environment
	Stop process.Stop
	User *osuser.User // nil: run commands as the user of this process

	Group *cgroup.Group  // in which commands run; nil: that of this process
	Usage *usage.Counter // of what commands used; nil: nobody counts

	// Killed is set once a command had to be killed.
	Killed bool
}

// ErrStopped means that a command was not started, or was interrupted, because the job must stop.
var ErrStopped = errors.New("the job must stop")

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

// The prefixes of a line that starts a section of the log.
const (
	Muted     = "~~~ " // collapsed, less important
	Collapsed = "--- "
	Open      = "+++ "
	// Reopen opens the current section.
	Reopen = "^^^ +++"
)

// Section starts a section of the log.
func (s *Shell) Section(kind, title string) { s.printf("%s%s\r\n", kind, title) }

// Comment logs an explanation.
func (s *Shell) Comment(format string, args ...any) {
	s.printf("\x1b[90m# %s\x1b[0m\r\n", fmt.Sprintf(format, args...))
}

// Prompt logs a command as if it were typed.
func (s *Shell) Prompt(command string) {
	s.printf("\x1b[90m$\x1b[0m %s\r\n", strings.ReplaceAll(command, "\n", "\r\n"))
}

// Warning logs a warning.
func (s *Shell) Warning(format string, args ...any) {
	s.printf("\x1b[33m⚠ %s\x1b[0m\r\n", fmt.Sprintf(format, args...))
}

// Error logs why the job fails, and opens the current section.
func (s *Shell) Error(format string, args ...any) {
	s.printf("%s\r\n\x1b[31m✗ %s\x1b[0m\r\n", Reopen, fmt.Sprintf(format, args...))
}

// printf ignores errors: a log that cannot be written must not keep a job from running. The job's result
// reports missing parts.
func (s *Shell) printf(format string, args ...any) { fmt.Fprintf(s.Log, format, args...) }

// Run logs a command, runs it on a terminal, and logs its output.
func (s *Shell) Run(args ...string) error {
	s.Prompt(Quote(args))
	return s.RunQuietly(args...)
}

// RunQuietly is like Run but does not log the command.
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
		Group:  s.Group,
		Ended:  s.count,
	}, s.Stop)
	return s.ended(args[0], result, err)
}

// An Executor runs scripts elsewhere, such as in another container.
type Executor interface {
	Run(script, dir string, env []string, output io.Writer, stop process.Stop) (process.Result, error)
}

// RunIn runs a script with an executor and logs its output. The executor gets the variables of the job, but not
// those that only describe this process.
func (s *Shell) RunIn(e Executor, script string) error {
	if s.Stopped() {
		return ErrStopped
	}
	own := os.Environ()
	env := slices.DeleteFunc(s.Env.Lines(), func(line string) bool { return slices.Contains(own, line) })
	result, err := e.Run(script, s.Dir, env, s.Log, s.Stop)
	return s.ended("the command", result, err)
}

// ended returns the error of a command that has ended.
func (s *Shell) ended(command string, result process.Result, err error) error {
	s.Killed = s.Killed || result.Killed
	switch {
	case err != nil:
		return fmt.Errorf("run %s: %w", command, err)
	case s.Stopped():
		return errors.Join(ErrStopped, &ExitError{command, result})
	case result.ExitStatus != 0:
		return &ExitError{command, result}
	}
	return nil
}

// count counts what a command used.
func (s *Shell) count(state *os.ProcessState) {
	if s.Usage != nil {
		s.Usage.Add(state)
	}
}

// outputTimeout limits the duration of Output.
const outputTimeout = time.Minute

// Output runs a short command and returns its output without the trailing line break. It kills the command when
// it takes too long or the job must stop.
func (s *Shell) Output(args ...string) (string, error) {
	path, err := s.lookUp(args[0])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), outputTimeout)
	defer cancel()
	go func() {
		select {
		case <-s.Stop.Term:
		case <-s.Stop.Kill:
		case <-ctx.Done():
		}
		cancel()
	}()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args[1:]...)
	cmd.Dir, cmd.Env = s.Dir, s.Env.Lines()
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = s.User.Attributes()
	s.Group.Attach(cmd.SysProcAttr)
	defer func() { s.count(cmd.ProcessState) }()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", Quote(args), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimRight(stdout.String(), "\r\n"), nil
}

// Chown makes the user of commands the owner of a file or directory.
func (s *Shell) Chown(path string) error {
	if s.User == nil {
		return nil
	}
	return os.Lchown(path, int(s.User.UID), int(s.User.GID))
}

// Stopped reports whether the job must stop.
func (s *Shell) Stopped() bool {
	select {
	case <-s.Stop.Term:
		return true
	case <-s.Stop.Kill:
		return true
	default:
		return false
	}
}

// lookUp finds a program in the job's PATH, which hooks may have changed.
func (s *Shell) lookUp(program string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for _, dir := range filepath.SplitList(s.Env["PATH"]) {
		path := filepath.Join(dir, program)
		if !filepath.IsAbs(path) {
			continue // a directory of the repository must not replace the system's
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
