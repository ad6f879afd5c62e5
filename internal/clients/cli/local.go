package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/sleep"
)

// A LocalBuild is a build that runs on this machine.
type LocalBuild struct {
	URL, Token    string // of the server in this process
	Org, Pipeline string
	Request       map[string]any    // body of the request that creates the build
	Unblock       bool              // unblock steps without asking
	Fields        map[string]string // of block and input steps
}

// localInterval is the polling interval of a local build, whose server is in this process.
const localInterval = 100 * time.Millisecond

// Run creates the build and prints the logs of its jobs until it ends. It returns an error unless the build passes.
func (l LocalBuild) Run(cmd *cobra.Command) error {
	r := &remote{
		Client: &api.Client{URL: l.URL, Token: l.Token, UserAgent: cmdline.UserAgent()},
		ctx:    cmd.Context(), cmd: cmd, out: cmd.OutOrStdout(), org: l.Org,
	}
	r.setTerminal()
	created, err := call[build](r, post, l.Request, "/pipelines/%/builds", l.Pipeline)
	if err != nil {
		return err
	}
	logs := &localLogs{r: r, started: map[string]bool{}}
	defer logs.wait()
	for {
		b, err := call[build](r, get, nil, "/pipelines/%/builds/%?include_retried_jobs=true", l.Pipeline, strconv.Itoa(created.Value.Number))
		if r.ctx.Err() != nil {
			return &cmdline.StatusError{Status: exitInterrupted}
		}
		if err != nil {
			return err
		}
		logs.follow(b.Value)
		if b.Value.FinishedAt != nil {
			logs.wait()
			return l.conclude(r, b.Value)
		}
		if b.Value.Blocked {
			if err := l.unblock(r, b.Value); err != nil {
				return err
			}
		}
		sleep.For(r.ctx, localInterval)
	}
}

// conclude prints a summary.
func (l LocalBuild) conclude(r *remote, b build) error {
	fmt.Fprintln(r.out)
	for _, line := range r.tree(b, time.Now(), 1000) {
		fmt.Fprintln(r.out, line.paint(r.color))
	}
	if b.State != "passed" {
		return fmt.Errorf("the build is %s", b.State)
	}
	return nil
}

// unblock unblocks the first blocked step, if --unblock or the user says so.
func (l LocalBuild) unblock(r *remote, b build) error {
	for _, j := range b.Jobs {
		if j.State != "blocked" {
			continue
		}
		if !l.Unblock {
			if !isTerminal(r.cmd.InOrStdin()) {
				return fmt.Errorf("the build is blocked by %q; continue such steps with --unblock", j.title())
			}
			if !r.ask(fmt.Sprintf("Unblock %q?", plain(j.title())), false) {
				return &cmdline.StatusError{Status: cmdline.ExitFailed, Err: fmt.Errorf("the build is blocked by %q", j.title())}
			}
		}
		_, err := call[job](r, put, map[string]any{"fields": l.Fields}, "/jobs/%/unblock", j.ID)
		if err != nil {
			return fmt.Errorf("unblock %q (set fields with --field): %w", j.title(), err)
		}
		return nil
	}
	return nil
}

// localLogs prints the logs of jobs as they grow, each line after the name of its job.
type localLogs struct {
	r       *remote
	started map[string]bool
	running sync.WaitGroup
	lock    sync.Mutex // held while a line is printed
}

// follow starts printing the logs of jobs that have started.
func (l *localLogs) follow(b build) {
	for _, j := range b.Jobs {
		if j.StartedAt == nil || j.Type != "script" || l.started[j.ID] {
			continue
		}
		color := labelColors[len(l.started)%len(labelColors)]
		l.started[j.ID] = true
		l.running.Go(func() {
			lines := &prefixed{logs: l, name: plain(j.fullTitle()), color: color}
			if err := l.stream(j.ID, lines); err != nil && l.r.ctx.Err() == nil {
				fmt.Fprintf(lines, "(the log is not available: %v)\n", err)
			}
			lines.end()
		})
	}
}

func (l *localLogs) stream(id string, lines io.Writer) error {
	path, err := l.r.under("/jobs/%/log/stream", id)
	if err != nil {
		return err
	}
	out := &stampless{out: lines}
	return l.r.Follow(l.r.ctx, path, func(e api.Event) (bool, error) {
		if e.Name != "log" {
			return e.Name == "end", nil
		}
		var piece struct{ Content string }
		if err := json.Unmarshal(e.Data, &piece); err != nil {
			return false, err
		}
		_, err := io.WriteString(out, piece.Content)
		return false, err
	})
}

// wait returns when all logs are printed, or the command was interrupted.
func (l *localLogs) wait() {
	done, cancel := context.WithCancel(l.r.ctx)
	go func() {
		l.running.Wait()
		cancel()
	}()
	<-done.Done()
}

// controlSequence matches a color or another control sequence of a terminal.
var controlSequence = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// labelColors are the colors of the names of jobs.
var labelColors = []string{"\x1b[36m", "\x1b[35m", "\x1b[34m", "\x1b[33m", "\x1b[32m"}

// prefixed prints lines after the name of a job.
type prefixed struct {
	logs        *localLogs
	name, color string
	part        []byte
}

func (p *prefixed) Write(text []byte) (int, error) {
	for rest := text; ; {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		p.part = append(p.part, line...)
		if !ok && len(p.part) < maxTailLine {
			return len(text), nil
		}
		p.print()
		if rest = after; !ok {
			return len(text), nil
		}
	}
}

func (p *prefixed) end() {
	if len(p.part) > 0 {
		p.print()
	}
}

func (p *prefixed) print() {
	p.logs.lock.Lock()
	defer p.logs.lock.Unlock()
	line := bytes.TrimRight(p.part, "\r")
	line = line[bytes.LastIndexByte(line, '\r')+1:]
	name := p.name + " │ "
	if p.logs.r.color {
		name = p.color + name + reset
	} else {
		line = controlSequence.ReplaceAll(line, nil)
	}
	fmt.Fprintf(p.logs.r.out, "%s%s\n", name, line)
	p.part = p.part[:0]
}
