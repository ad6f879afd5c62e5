package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// A treePrinter shows a build on a terminal and replaces what it showed before.
type treePrinter struct {
	r     *remote
	tails *tails
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
	if b.FinishedAt == nil && slices.ContainsFunc(b.Jobs, func(j job) bool { return j.failed() && !p.tails.printed[j.ID] }) {
		// Above the tree, which is drawn again below.
		if _, err := io.WriteString(p.r.out, text.String()); err != nil {
			return err
		}
		text.Reset()
		if err := p.tails.print(b); err != nil {
			return err
		}
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
