package stackctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"

	"stackyard/internal/clients/handoff"
)

// A Workload is one job to be run by one ephemeral agent.
type Workload struct {
	JobID    string
	Queue    string
	Endpoint string
	Tags     []string // of the agent
	// Token is the job acquisition token. It is never handed over in an argument, which other users of the
	// machine could read.
	Token string
}

// environment is what puts an agent into single-job acquisition mode, but for its token. The variables have
// two names, the second for the published agent, which a command may start. What the stack knows its own token
// by is left out: an agent has no business with it.
func (w Workload) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		return strings.HasPrefix(line, "SERVICE_AGENT_TOKEN") || strings.HasPrefix(line, "BUILDKITE_AGENT_TOKEN")
	})
	for name, value := range map[string]string{
		"AGENT_TAGS":        strings.Join(w.Tags, ","),
		"AGENT_ACQUIRE_JOB": w.JobID,
		"AGENT_ENDPOINT":    w.Endpoint,
	} {
		env = append(env, "SERVICE_"+name+"="+value, "BUILDKITE_"+name+"="+value)
	}
	return env
}

// Compute starts agents.
type Compute interface {
	// Run runs an agent for one job and returns when it has ended. When ctx is done it asks the agent to
	// end. The error tells why the agent could not be started, or what it said before it failed.
	Run(ctx context.Context, w Workload) error
}

// Processes runs agents as processes of this machine.
type Processes struct {
	// Program is the path of the stackyard binary.
	Program string
	// Args are arguments of its agent command.
	Args []string
}

// Run implements [Compute].
func (p Processes) Run(ctx context.Context, w Workload) error {
	cmd := exec.CommandContext(ctx, p.Program, append([]string{"agent"}, p.Args...)...)
	cmd.Env = w.environment()
	release, err := handoff.Attach(cmd, map[string]string{"token": w.Token})
	if err != nil {
		return err
	}
	defer release()
	return run(cmd)
}

// Command starts compute with a command of the user's, which runs until the agent has ended.
type Command struct{ template *template.Template }

// ParseCommand reads a command template: a line for the shell in which {{.JobID}}, {{.Queue}} and
// {{.Endpoint}} stand for those of the job. The command also gets the environment of an agent in
// single-job acquisition mode.
func ParseCommand(text string) (Command, error) {
	t, err := template.New("command").Option("missingkey=error").Parse(text)
	if err == nil {
		err = t.Execute(new(bytes.Buffer), fields(Workload{}))
	}
	return Command{t}, err
}

func fields(w Workload) map[string]string {
	return map[string]string{"JobID": w.JobID, "Queue": w.Queue, "Endpoint": w.Endpoint}
}

// Run implements [Compute].
func (c Command) Run(ctx context.Context, w Workload) error {
	var line strings.Builder
	if err := c.template.Execute(&line, fields(w)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line.String())
	cmd.Env = append(w.environment(), "SERVICE_AGENT_TOKEN="+w.Token, "BUILDKITE_AGENT_TOKEN="+w.Token)
	return run(cmd)
}

// stopGrace is how long an agent may take to end when it is asked to, before it is killed.
const stopGrace = 6 * time.Second

// secondWord is how long after the first signal the second comes.
const secondWord = 100 * time.Millisecond

// run runs a process that is an agent, or starts one, in a process group of its own: a signal from the
// terminal is for the stack alone, which decides what becomes of its agents.
func run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		// The first signal asks an agent to leave after its job, the second to leave at once.
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		time.AfterFunc(secondWord, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) })
		return err
	}
	cmd.WaitDelay = stopGrace
	last := &tail{most: 2000}
	cmd.Stdout, cmd.Stderr = last, last
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	err := cmd.Wait()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whatever is left of the group
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if said := strings.TrimSpace(last.String()); said != "" {
		return fmt.Errorf("the agent ended with %s, after it had said: %s", exit, said)
	}
	return fmt.Errorf("the agent ended with %s", exit)
}

// A tail keeps the end of what is written to it.
type tail struct {
	kept []byte
	most int
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-t.most):]...)
	if over := len(t.kept) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

// String returns the end, from the beginning of a line where there is one.
func (t *tail) String() string {
	text := t.kept
	if i := bytes.IndexByte(text, '\n'); len(text) == t.most && i >= 0 {
		text = text[i+1:]
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
