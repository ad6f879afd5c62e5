// Package container runs the command of a job in a container of the step's image, with the container runtime of the
// machine: podman, docker or nerdctl.
//
// The runtime runs as the agent's user with the agent's own variables, because who controls the variables of a
// runtime controls what it does. The job's variables reach the container in a script that only the job's user can
// read, since arguments of processes are visible to all users. The container has no privileges, runs as an
// unprivileged user, and sees the workspace and nothing else of the machine.
package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"stackyard/internal/clients/runner/environ"
	"stackyard/internal/clients/runner/shell"
)

// A Runtime starts containers.
type Runtime struct {
	Command []string // the program with its global arguments
	RunArgs []string // further arguments of its run command
}

// programs are the runtimes that are looked for, in this order.
var programs = []string{"podman", "docker", "nerdctl"}

// Find returns the first runtime on the PATH, or nil.
func Find() *Runtime {
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return &Runtime{Command: []string{path}}
		}
	}
	return nil
}

// Programs returns the names of supported runtimes.
func Programs() []string { return slices.Clone(programs) }

// name returns the name of the runtime.
func (r *Runtime) name() string { return filepath.Base(r.Command[0]) }

// imageName is the form of image references: no transports, no options.
var imageName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)

// CheckImage rejects names that are not image references, such as paths and options.
func CheckImage(image string) error {
	if len(image) > 500 || !imageName.MatchString(image) {
		return fmt.Errorf("%q is not the name of an image, such as docker.io/library/alpine:3.22", image)
	}
	return nil
}

// A Job is a command that runs in a container.
type Job struct {
	ID       string
	Image    string
	Command  string
	Dir      string              // mounted at the same path, and the working directory
	Files    string              // an existing folder of the job for the script; mounted read-only
	Env      environ.Environment // of the job
	Program  string              // this program, for commands in the container; "": none
	Socket   string              // of the job's agent; "": none
	UID, GID int                 // owner of Dir, who runs the command
}

// The paths in a container.
const (
	filesPath  = "/stackyard"
	socketPath = "/stackyard-agent.sock"
	binPath    = "/stackyard-bin"
)

// Args writes the job's script and returns the command that runs it.
func (r *Runtime) Args(j Job) ([]string, error) {
	if err := CheckImage(j.Image); err != nil {
		return nil, err
	}
	script := filepath.Join(j.Files, "run")
	if err := os.WriteFile(script, []byte(j.script()), 0o400); err != nil {
		return nil, err
	}
	if err := errors.Join(own(j.Files, j), own(script, j)); err != nil {
		return nil, err
	}
	args := slices.Concat(r.Command, []string{"run", "--rm", "--name", j.name(),
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--user", strconv.Itoa(j.UID) + ":" + strconv.Itoa(j.GID),
		"--volume", j.Dir + ":" + j.Dir, "--workdir", j.Dir,
		"--volume", j.Files + ":" + filesPath + ":ro"})
	if r.name() == "podman" && os.Geteuid() != 0 {
		args = append(args, "--userns", "keep-id")
	}
	if j.Program != "" {
		args = append(args, "--volume", j.Program+":"+binPath+"/stackyard:ro", "--volume", j.Program+":"+binPath+"/buildkite-agent:ro")
	}
	if j.Socket != "" {
		args = append(args, "--volume", j.Socket+":"+socketPath)
	}
	args = append(args, r.RunArgs...)
	return append(args, "--entrypoint", "/bin/sh", j.Image, filesPath+"/run"), nil
}

// own gives a file to the user of the job, if the agent can.
func own(path string, j Job) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, j.UID, j.GID)
}

// name returns the name of the container.
func (j Job) name() string { return "stackyard-" + j.ID }

// hostVariables describe the machine and mean nothing in a container.
var hostVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "TMPDIR", "_"}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// script returns what runs in the container. The shell is process 1, which ignores signals that it does not handle:
// it passes SIGTERM on.
func (j Job) script() string {
	var s strings.Builder
	own := environ.Parse(os.Environ())
	for _, line := range j.Env.Lines() {
		name, value, _ := strings.Cut(line, "=")
		inherited, same := own[name]
		if slices.Contains(hostVariables, name) || !variableName.MatchString(name) || same && inherited == value {
			continue
		}
		s.WriteString("export " + name + "=" + quote(value) + "\n")
	}
	s.WriteString("export PATH=\"$PATH:" + binPath + "\"\n")
	if j.Socket != "" {
		for _, prefix := range []string{"SERVICE_", "BUILDKITE_"} {
			s.WriteString("export " + prefix + "AGENT_JOB_API_SOCKET=" + socketPath + "\n")
		}
	}
	s.WriteString("[ -w \"${HOME:-/}\" ] || export HOME=/tmp\n" +
		"if [ -x /bin/bash ]; then set -- /bin/bash; else set -- /bin/sh; fi\n" +
		"\"$@\" -e -c " + quote(j.Command) + " <&0 &\n" +
		"child=$!\n" +
		"trap 'kill -TERM -1' TERM INT\n" +
		"while :; do\n" +
		"  wait $child; status=$?\n" +
		"  kill -0 $child 2>/dev/null || exit $status\n" +
		"done\n")
	return s.String()
}

// quote quotes a text for a shell, whatever is in it.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// removeTimeout limits how long the removal of a container takes.
const removeTimeout = 30 * time.Second

// Remove removes the container of a job, if it is still there: a runtime that was killed leaves it behind.
func (r *Runtime) Remove(jobID string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	args := slices.Concat(r.Command, []string{"rm", "--force", Job{ID: jobID}.name()})
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil && !strings.Contains(strings.ToLower(string(out)), "no such") && !strings.Contains(string(out), "no container") {
		return fmt.Errorf("%s: %w: %s", shell.Quote(args), err, strings.TrimSpace(string(out)))
	}
	return nil
}
