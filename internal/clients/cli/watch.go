package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"stackyard/api"
	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/sleep"
)

// watchInterval is the polling interval of watchBuild.
const watchInterval = time.Second

// exitInterrupted is the exit status of a command that was stopped with Ctrl-C.
const exitInterrupted = 130

// watchBuild shows a build until it ends.
func watchBuild(r *remote, pipeline, number string) error {
	tails := &tails{r: r, printed: map[string]bool{}}
	show := (&changePrinter{r: r, seen: map[string]string{}}).print
	tree := &treePrinter{r: r, tails: tails}
	if r.terminal && !r.json {
		show = tree.print
	}
	for failures := 0; ; {
		b, err := call[build](r, get, nil, "/pipelines/%/builds/%", pipeline, number)
		if _, refused := errors.AsType[*api.Error](err); err != nil && !refused && failures < maxLost {
			// The server restarts, or the network changes: the build goes on.
			if failures++; failures == 1 && r.ctx.Err() == nil {
				fmt.Fprintf(r.cmd.ErrOrStderr(), "%v\nTrying again.\n", err)
				tree.drawn = 0 // the message is below it
			}
			err = nil
		} else if err == nil {
			failures, err = 0, show(b.Value)
		}
		switch {
		case r.ctx.Err() != nil:
			return &cmdline.StatusError{Status: exitInterrupted}
		case err != nil:
			return err
		case b.Value.FinishedAt != nil:
			if r.json {
				err = r.printJSON(b.Raw)
			}
			return errors.Join(err, tails.conclude(b.Value))
		}
		sleep.For(r.ctx, watchInterval)
	}
}

// maxLost is how many times in a row watchBuild fails to reach the server before it gives up.
const maxLost = 30

// tails prints the ends of the logs of failed jobs, each once.
type tails struct {
	r       *remote
	printed map[string]bool // by job id
}

// print prints those of jobs that have failed since the last time.
func (t *tails) print(b build) error {
	for _, j := range b.Jobs {
		if !j.failed() || t.printed[j.ID] || len(t.printed) == maxTails {
			continue
		}
		t.printed[j.ID] = true
		if err := printTail(t.r, j); err != nil {
			return err
		}
	}
	return nil
}

// conclude prints what has not been printed yet of a build that has ended, and returns an error unless it passed.
func (t *tails) conclude(b build) error {
	if b.State == "passed" {
		return nil
	}
	if !t.r.json {
		if err := t.print(b); err != nil {
			return err
		}
		if n := len(slices.DeleteFunc(slices.Clone(b.Jobs), func(j job) bool { return !j.failed() || t.printed[j.ID] })); n > 0 {
			fmt.Fprintf(t.r.out, "%d more failed; see stackyard job log %s %d --failed\n", n, b.Pipeline.Slug, b.Number)
		}
	}
	return fmt.Errorf("build %d is %s", b.Number, b.State)
}

const (
	// maxTails limits the failed jobs whose logs are shown.
	maxTails = 3
	// tailLines is how many lines of a log it prints.
	tailLines = 20
)

// printTail prints the last lines of a job's log.
func printTail(r *remote, j job) error {
	path, err := r.under("/jobs/%/log.txt", j.ID)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "\n%s: %s\n", plain(j.fullTitle()), r.paint(j.stateNow()))
	log, err := r.Stream(r.ctx, path, "text/plain")
	if err != nil {
		_, err = fmt.Fprintf(r.out, "  (no log: %v)\n", err)
		return err
	}
	defer log.Close()
	end := &tail{most: tailLines}
	if _, err := io.Copy(&stampless{out: end}, log); err != nil {
		return err
	}
	for _, line := range end.lines() {
		if _, err := fmt.Fprintf(r.out, "  %s\n", line); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(r.out, "  All of it: stackyard job log %s\n", j.ID)
	return err
}

// A tail keeps the last lines of what is written to it.
type tail struct {
	most int
	kept []string
	part []byte
}

// maxTailLine limits the length of a kept line.
const maxTailLine = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' {
			if len(t.part) < maxTailLine {
				t.part = append(t.part, b)
			}
			continue
		}
		t.end()
	}
	return len(p), nil
}

func (t *tail) end() {
	// A terminal shows what follows the last carriage return.
	line := strings.TrimRight(string(t.part), "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	t.part = t.part[:0]
	if t.kept = append(t.kept, line); len(t.kept) > t.most {
		t.kept = t.kept[1:]
	}
}

func (t *tail) lines() []string {
	if len(t.part) > 0 {
		t.end()
	}
	return t.kept
}

// A changePrinter prints a line for each change of a build.
type changePrinter struct {
	r    *remote
	seen map[string]string // states of the jobs and of the build, by id
}

func (p *changePrinter) print(b build) error {
	out := p.r.out
	if p.r.json {
		out = io.Discard
	}
	for _, j := range b.Jobs {
		if j.Type == "waiter" || p.seen[j.ID] == j.State {
			continue
		}
		p.seen[j.ID] = j.State
		if _, err := fmt.Fprintf(out, "%s  %-10s %s%s\n", time.Now().Format(time.TimeOnly), j.State, plain(j.fullTitle()), after(j)); err != nil {
			return err
		}
	}
	state := b.stateNow()
	if p.seen[b.ID] == state {
		return nil
	}
	p.seen[b.ID] = state
	if _, err := fmt.Fprintf(out, "%s  build %d is %s\n", time.Now().Format(time.TimeOnly), b.Number, state); err != nil {
		return err
	}
	for _, need := range needs(b) {
		if _, err := fmt.Fprintln(out, need); err != nil {
			return err
		}
	}
	return nil
}

// after says how long a finished job ran.
func after(j job) string {
	if j.FinishedAt == nil || j.StartedAt == nil {
		return ""
	}
	return " after " + length(j.FinishedAt.Sub(*j.StartedAt))
}

// needs says what a blocked build waits for.
func needs(b build) (lines []string) {
	if !b.Blocked {
		return nil
	}
	for _, j := range b.Jobs {
		if j.State == "blocked" {
			lines = append(lines, fmt.Sprintf("Nothing more happens until %q is unblocked: %s", plain(strings.ReplaceAll(j.fullTitle(), ": ", " ")), unblockCommand(b, j)))
		}
	}
	return lines
}

// unblockCommand returns the command that unblocks a job, with the fields that it requires.
func unblockCommand(b build, j job) string {
	name := j.ID
	if b.Pipeline.Slug != "" {
		if found, err := b.job(j.fullTitle()); err == nil && found.ID == j.ID {
			name = fmt.Sprintf("%s %d %s", b.Pipeline.Slug, b.Number, quoted(plain(j.fullTitle())))
		}
	}
	command := "stackyard job unblock " + name
	for _, f := range j.Fields {
		if f.Required && len(f.Default) == 0 {
			command += " --field " + f.Key + "=VALUE"
		}
	}
	return command
}

// duration returns how long something took, or takes so far.
func duration(from time.Time, to *time.Time, now time.Time) string {
	if to != nil {
		now = *to
	}
	return length(now.Sub(from))
}

// length formats how long something took.
func length(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}
