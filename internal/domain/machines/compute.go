package machines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"stackyard/internal/platform/buildah"
	"stackyard/internal/platform/core"
)

// agentPath is where the agent is in containers.
const agentPath = "/usr/local/bin/stackyard"

// compute runs the agent of a machine until it has exited: in a container, or as a process where there are no
// containers. The agent reads its token from standard input, so that no other process can.
func (s *Service) compute(ctx context.Context, m *Machine, token string) error {
	store, err := s.Images.Store(ctx)
	switch {
	case errors.Is(err, buildah.ErrMissing):
		return s.runProcess(ctx, m, token)
	case err != nil:
		return err
	}
	if m.container == "" {
		if m.container, err = store.NewContainer(ctx, s.imageOf(m), memoryOf(m)); err != nil {
			return fmt.Errorf("create a container of the image %s: %w", s.imageOf(m), err)
		}
	}
	notice := "Running in a container of the image " + s.imageOf(m)
	if !store.Contained() {
		notice += " (chroot only: runc is not installed)"
	}
	output := &tail{}
	err = store.Run(ctx, m.container, buildah.Command{
		Args:   []string{agentPath, "agent", "--token-file", "/dev/stdin"},
		Env:    s.environment(m, notice),
		Mount:  map[string]string{agentPath: s.Program},
		Stdin:  strings.NewReader(token),
		Memory: memoryOf(m),
	}, output)
	return describe(err, output)
}

// imageOf returns the image of a machine: that of its queue, or the base image.
func (s *Service) imageOf(m *Machine) string { return cmp.Or(m.ImageRef, s.Images.BaseImage) }

// memoryOf returns how much memory a machine may use.
func memoryOf(m *Machine) int64 { return int64(m.Shape.Memory) << 30 }

// environment returns the variables of an agent in single-job acquisition mode.
func (s *Service) environment(m *Machine, notice string) []string {
	return []string{
		"SERVICE_AGENT_ENDPOINT=" + s.Endpoint,
		"SERVICE_AGENT_ACQUIRE_JOB=" + m.JobID,
		"SERVICE_AGENT_NAME=hosted-" + m.ID,
		"SERVICE_AGENT_NOTICE=" + notice,
		"SERVICE_AGENT_STEP_IMAGES=ignore", // the machine is of the queue's image
	}
}

// sandboxScript hides folders and runs a command. Its arguments are the folders, --, and the command.
const sandboxScript = `while [ "$1" != -- ]; do mount -t tmpfs -o mode=700 tmpfs "$1" || exit 125; shift; done; shift; exec "$@"`

// runProcess runs the agent of a machine as a process with its own process table, without the folders of the server.
func (s *Service) runProcess(ctx context.Context, m *Machine, token string) error {
	const unsafe = "Running as a process on the server: buildah is not installed, so the image of the queue is not used"
	args := []string{s.Program, "agent", "--token-file", "/dev/stdin"}
	notice := unsafe + ", and the job is not isolated from the server"
	if unshare, err := exec.LookPath("unshare"); err == nil && os.Geteuid() == 0 {
		notice = unsafe + "; the job sees the server's system without its data and processes"
		sandbox := []string{unshare, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", sandboxScript, "sh"}
		args = append(append(append(sandbox, s.Hidden...), "--"), args...)
	}
	home, err := os.MkdirTemp("", "stackyard-machine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = home
	cmd.Env = append(s.environment(m, notice), "PATH="+os.Getenv("PATH"), "HOME="+home, "TMPDIR="+home, "LANG=C.UTF-8")
	cmd.Stdin = strings.NewReader(token)
	output := &tail{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	buildah.DieWithParent(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	// The kernel kills the process when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return describe(cmd.Run(), output)
}

// describe adds the last output of an agent to its error.
func describe(err error, output *tail) error {
	if err == nil {
		return nil
	}
	if text := strings.TrimSpace(output.String()); text != "" {
		return fmt.Errorf("%w; its output: %s", err, core.Cut(text, 2000))
	}
	return err
}

// A tail keeps the end of what is written to it.
type tail struct{ kept []byte }

const tailSize = 4000

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-tailSize):]...)
	t.kept = append(t.kept[:0], t.kept[max(0, len(t.kept)-tailSize):]...)
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.kept), "\uFFFD") }

var _ io.Writer = (*tail)(nil)
