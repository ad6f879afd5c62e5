package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"stackyard/internal/clients/cmdline"
	"stackyard/internal/clients/sleep"
)

// watchInterval is the polling interval of watchBuild.
const watchInterval = time.Second

// exitInterrupted is the exit status of a command that was stopped with Ctrl-C.
const exitInterrupted = 130

// watchBuild shows a build until it ends.
func watchBuild(r *remote, pipeline, number string) error {
	show := (&changePrinter{r: r, seen: map[string]string{}}).print
	if r.terminal && !r.json {
		show = (&treePrinter{r: r}).print
	}
	for {
		b, err := call[build](r, get, nil, "/pipelines/%/builds/%", pipeline, number)
		if err == nil {
			err = show(b.Value)
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
			return errors.Join(err, conclude(r, b.Value))
		}
		sleep.For(r.ctx, watchInterval)
	}
}

// conclude prints the ends of the logs of failed jobs, and returns an error unless the build passed.
func conclude(r *remote, b build) error {
	if b.State == "passed" {
		return nil
	}
	shown := 0
	for _, j := range b.Jobs {
		if !j.failed() || r.json {
			continue
		}
		if shown++; shown > maxTails {
			fmt.Fprintln(r.out, "More jobs failed; see stackyard job log --failed")
			break
		}
		if err := printTail(r, j); err != nil {
			return err
		}
	}
	return fmt.Errorf("build %d is %s", b.Number, b.State)
}

const (
	// maxTails limits the failed jobs whose logs conclude prints.
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
			lines = append(lines, fmt.Sprintf("Nothing more happens until %q is unblocked: stackyard job unblock %s", plain(strings.ReplaceAll(j.fullTitle(), ": ", " ")), j.ID))
		}
	}
	return lines
}

// A treePrinter shows a build on a terminal and replaces what it showed before.
type treePrinter struct {
	r     *remote
	drawn int // lines on the screen
}

func (p *treePrinter) print(b build) error {
	width, height := 80, 24
	if f, ok := p.r.out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 { // some terminals do not say
			width, height = w, h
		}
	}
	lines := p.r.tree(b, time.Now(), height-1)
	var text strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&text, "\x1b[%dA\x1b[J", p.drawn)
	}
	p.drawn = len(lines)
	for _, l := range lines {
		// A longer line would take two rows of the screen.
		if utf8.RuneCountInString(l.text) >= width {
			l.text = string([]rune(l.text)[:max(0, width-1)])
		}
		text.WriteString(l.paint(p.r.color))
		text.WriteByte('\n')
	}
	_, err := io.WriteString(p.r.out, text.String())
	return err
}

// A treeLine is a line of a tree in a color.
type treeLine struct{ text, color string }

func (l treeLine) paint(color bool) string {
	if !color || l.color == "" {
		return l.text
	}
	return l.color + l.text + reset
}

// marks are shown before jobs by their states.
var marks = map[string]string{
	"passed": "✓", "failed": "✗", "timed_out": "✗", "expired": "✗", "broken": "-", "skipped": "-", "canceled": "-",
	"running": "●", "blocked": "?", "unblocked": "✓", "canceling": "●", "timing_out": "●",
}

// tree returns the jobs of a build as lines, grouped and with durations. It leaves out jobs that passed if there are more
// than most lines.
func (r *remote) tree(b build, now time.Time, most int) []treeLine {
	head := fmt.Sprintf("%s build %d: %s", b.Pipeline.Slug, b.Number, b.stateNow())
	if b.StartedAt != nil {
		head += ", " + duration(*b.StartedAt, b.FinishedAt, now)
	}
	needed := needs(b)
	lines := []treeLine{{head, stateColors[b.State]}}
	jobs := b.Jobs
	if over := len(jobs) + 2*len(needed) + 2 - most; over > 0 {
		jobs, lines = withoutPassed(jobs, over, lines)
	}
	width := 0
	for _, j := range jobs {
		width = max(width, utf8.RuneCountInString(plain(j.fullTitle())))
	}
	group := ""
	for _, j := range jobs {
		if j.Type == "waiter" {
			continue
		}
		if j.GroupKey != group && j.GroupKey != "" {
			lines = append(lines, treeLine{"  " + plain(j.GroupKey), ""})
		}
		group = j.GroupKey
		lines = append(lines, jobLine(j, min(width, 50), now))
	}
	for _, need := range needed {
		// On two lines, so that the command fits on a narrow screen.
		what, command, _ := strings.Cut(need, ": ")
		lines = append(lines, treeLine{what + ":", stateColors["blocked"]}, treeLine{"  " + command, ""})
	}
	return lines
}

// withoutPassed leaves out the first jobs that passed, but at most some.
func withoutPassed(jobs []job, most int, lines []treeLine) ([]job, []treeLine) {
	var kept []job
	left := 0
	for _, j := range jobs {
		if left <= most && (j.State == "passed" || j.Type == "waiter") {
			left++
			continue
		}
		kept = append(kept, j)
	}
	return kept, append(lines, treeLine{fmt.Sprintf("  ✓ %d more passed", left), stateColors["passed"]})
}

func jobLine(j job, width int, now time.Time) treeLine {
	mark, ok := marks[j.State]
	if !ok {
		mark = "○"
	}
	indent := "  "
	if j.GroupKey != "" {
		indent = "    "
	}
	text := fmt.Sprintf("%s%s %-*s   %s", indent, mark, width, plain(j.fullTitle()), j.stateNow())
	if j.StartedAt != nil {
		text += ", " + duration(*j.StartedAt, j.FinishedAt, now)
	} else if j.BrokenReason != "" {
		text += ", " + plain(j.BrokenReason)
	}
	return treeLine{text, stateColors[j.State]}
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
