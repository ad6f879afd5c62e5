// Package handoff keeps secrets of a process from other processes of the same user.
//
// Other processes can read the arguments and the initial environment of a process as long as it runs, even if
// it clears its variables. A process that got secrets there replaces itself with a new one (Exec), and a
// process that starts another one attaches secrets to it (Attach). In both cases the new process reads them
// once from a pipe (Receive), and then protects its memory (Protect).
package handoff

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Variable is the environment variable with the file descriptor from which secrets are read.
const Variable = "STACKYARD_SECRETS_FD"

// maxSize limits the size of all secrets, so that they fit into a pipe buffer.
const maxSize = 4096

// Exec replaces this process with a new one of the same program that receives secrets. It returns only on
// failure.
func Exec(args, env []string, secrets map[string]string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	pipe, err := fill(secrets)
	if err != nil {
		return err
	}
	defer pipe.Close()
	fd := pipe.Fd()
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, 0); err != nil { // the new process keeps it
		return err
	}
	return syscall.Exec(program, args, append(env, Variable+"="+strconv.Itoa(int(fd))))
}

// Attach makes a command that is not started yet receive secrets. Call release after the start.
func Attach(cmd *exec.Cmd, secrets map[string]string) (release func(), err error) {
	pipe, err := fill(secrets)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, Variable+"="+strconv.Itoa(3+len(cmd.ExtraFiles)))
	cmd.ExtraFiles = append(cmd.ExtraFiles, pipe)
	return func() { pipe.Close() }, nil
}

// fill returns the read end of a pipe that contains secrets.
func fill(secrets map[string]string) (*os.File, error) {
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSize {
		return nil, fmt.Errorf("the secrets are longer than %d bytes; pass them in files", maxSize)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if _, err := w.Write(text); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Receive returns the secrets that this process was started with, or nil.
func Receive() (map[string]string, error) {
	number := os.Getenv(Variable)
	if number == "" {
		return nil, nil
	}
	os.Unsetenv(Variable)
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s: %q is not a file descriptor", Variable, number)
	}
	pipe := os.NewFile(uintptr(fd), Variable)
	defer pipe.Close()
	text, err := io.ReadAll(io.LimitReader(pipe, maxSize))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	secrets := map[string]string{}
	if err := json.Unmarshal(text, &secrets); err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	return secrets, nil
}
