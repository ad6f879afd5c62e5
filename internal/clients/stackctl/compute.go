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

// A Workload is one job for one ephemeral agent.
type Workload struct {
	JobID    string
	Queue    string
	Endpoint string
	Tags     []string // of the agent
	// Token is the job acquisition token. It is never passed as an argument, which other users of the machine
	// could read.
	Token string
	// Adopted means that a previous process of the stack started the agent.
	Adopted bool

	stack *Stack
}

// Job returns the environment and the command of the job.
func (w Workload) Job(ctx context.Context) (Job, error) {
	return w.stack.API.Job(ctx, w.stack.Key, w.JobID)
}

// NewToken issues another acquisition token.
func (w Workload) NewToken(ctx context.Context) (string, error) {
	tokens, err := w.stack.API.Tokens(ctx, w.stack.Key, []string{w.JobID}, TokenLifetime)
	if err == nil && tokens[w.JobID] == "" {
		err = errors.New("the server issued no token for the job")
	}
	return tokens[w.JobID], err
}

// Notify shows people what happens to the job, best effort.
func (w Workload) Notify(ctx context.Context, detail string) {
	err := w.stack.API.Notify(ctx, w.stack.Key, []Notification{{JobID: w.JobID, Detail: cut(detail, maxNotice)}})
	if err != nil {
		w.stack.logError(ctx, "send notification failed", err, "job", w.JobID)
	}
}

// maxNotice is the maximum size of a notification in bytes.
const maxNotice = 256

// environment returns the variables for single-job acquisition mode, except the token. Each variable has two
// names; the second is for the published agent, which a command may start. The stack's own token is left out:
// agents do not need it.
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

// Compute runs agents.
type Compute interface {
	// Run runs an agent for one job until it ends. When ctx is done, it stops the agent. The error says why the
	// agent could not be started, or has the last output of an agent that failed.
	Run(ctx context.Context, w Workload) error
}

// A Persistent compute has agents that outlive the process of the stack.
type Persistent interface {
	// Run runs an agent, or waits for the end of an adopted one. When ctx is done with an [Ended] cause, it stops
	// the agent; with another cause it leaves the agent running and returns [ErrLeft].
	Compute
	// Running returns the agents that previous processes of the stack started and that are not removed yet.
	Running(ctx context.Context) ([]Workload, error)
}

// Ended is the cause that stops an agent: its job has ended on the server, or is no longer the stack's.
type Ended struct{ State string }

func (e Ended) Error() string { return "the job is " + e.State }

// ErrLeft means that an agent continues without this process.
var ErrLeft = errors.New("the agent continues")

// Processes runs agents as local processes.
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

// Command runs agents with a user-provided command, which must run until the agent has ended.
type Command struct{ template *template.Template }

// ParseCommand parses a command template: a shell command with {{.JobID}}, {{.Queue}} and {{.Endpoint}} as
// placeholders. The command gets the environment of an agent in single-job acquisition mode.
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

// stopGrace is how long a stopped agent may take before it is killed.
const stopGrace = 6 * time.Second

// secondSignalDelay is the time between the first and the second signal.
const secondSignalDelay = 100 * time.Millisecond

// run runs an agent, or a command that starts one, in its own process group: signals from the terminal go only
// to the stack, which decides when agents stop.
func run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		// The first signal stops an agent after its job, the second at once.
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		time.AfterFunc(secondSignalDelay, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) })
		return err
	}
	cmd.WaitDelay = stopGrace
	last := &tail{most: 2000}
	cmd.Stdout, cmd.Stderr = last, last
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	err := cmd.Wait()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the rest of the group
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if said := strings.TrimSpace(last.String()); said != "" {
		return fmt.Errorf("the agent ended with %s; its output: %s", exit, said)
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

// String returns the end, from the start of a line if there is one.
func (t *tail) String() string {
	text := t.kept
	if i := bytes.IndexByte(text, '\n'); len(text) == t.most && i >= 0 {
		text = text[i+1:]
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
