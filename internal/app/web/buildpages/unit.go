package buildpages

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/rules/flow"
)

// A section is a group of steps, or the steps between groups.
type section struct {
	GroupID string // "": none
	Label   string
	Units   []*unit
	Shares  []share
	Folded  bool // everything in it passed, and something else did not
}

// A unit is a step on the page: the row of its only job, or one row for several jobs, with a bar and the jobs folded
// below it.
type unit struct {
	builds.Unit
	board  *board
	Rows   []*row
	Shares []share
	HTML   template.HTML // the rendered unit
}

// Single reports whether the unit is one job.
func (u *unit) Single() bool { return u.Total == 1 }

// ID returns the id of its element.
func (u *unit) ID() string {
	if u.Single() {
		return u.Rows[0].ID
	}
	return "step-" + u.StepID
}

// Name returns the label of a step with several jobs.
func (u *unit) Name() string {
	label := placeholders.ReplaceAllString(u.Rows[0].Step.Label, "")
	return cmp.Or(strings.Join(strings.Fields(label), " "), u.Rows[0].Name)
}

// placeholders matches what differs in the labels of a step's jobs.
var placeholders = regexp.MustCompile(`\{\{\s*matrix[^}]*\}\}|%[nNt]`)

// Badge returns the state of all jobs together: the worst, and what is not finished.
func (u *unit) Badge() badge {
	for _, label := range []string{"failed", "blocked", "running", "pending", "soft failed", "passed", "not run"} {
		for _, s := range u.Shares {
			if s.Label == label {
				b := s.badge
				b.Label = strings.ToUpper(label[:1]) + label[1:]
				return b
			}
		}
	}
	return badge{}
}

// Expanded reports whether the jobs are shown at first: one of them failed or is open.
func (u *unit) Expanded() bool {
	return slices.ContainsFunc(u.Rows, func(r *row) bool { return r.Open || r.OpenEarlier() || r.Failed() && !r.SoftFailed })
}

// More returns how many jobs are not on the page.
func (u *unit) More() int { return u.Total - len(u.Rows) }

// Ended returns when the last job finished; zero while one has not.
func (u *unit) Ended() time.Time {
	for _, s := range u.Shares {
		if s.Label == "running" || s.Label == "pending" || s.Label == "blocked" {
			return time.Time{}
		}
	}
	return u.FinishedAt
}

// StepPath returns the path of the list of all its jobs.
func (u *unit) StepPath() string { return selection{Step: u.StepID}.path(u.board.Path) }

// arrange sorts jobs into units, and units into sections.
func (b *board) arrange(v *pages.Visit, jobs *builds.Board, t actionError) {
	for _, of := range jobs.Units {
		u := &unit{Unit: of, board: b, Shares: sharesOf(of.Counts)}
		for _, j := range of.Jobs {
			u.Rows = append(u.Rows, b.rowWithAttempts(v, j, jobs.Before[j.ID], t))
		}
		if len(u.Rows) == 0 {
			continue
		}
		step := u.Rows[0].Job.Step
		if n := len(b.Sections); n == 0 || b.Sections[n-1].GroupID != step.GroupID {
			b.Sections = append(b.Sections, section{GroupID: step.GroupID, Label: cmp.Or(step.GroupLabel, step.GroupKey, "Group")})
		}
		last := &b.Sections[len(b.Sections)-1]
		last.Units = append(last.Units, u)
	}
	failed := slices.ContainsFunc(b.Shares, func(s share) bool { return s.Label == "failed" })
	for i := range b.Sections {
		s := &b.Sections[i]
		counts := map[flow.JobState]int{}
		for _, u := range s.Units {
			for state, n := range u.Counts {
				counts[state] += n
			}
		}
		s.Shares = sharesOf(counts)
		s.Folded = failed && !b.chosen.Filtered() && len(s.Shares) == 1 && s.Shares[0].Label == "passed" && !slices.ContainsFunc(s.Units, (*unit).Expanded)
	}
}

// rowWithAttempts returns the row of a job with its earlier attempts.
func (b *board) rowWithAttempts(v *pages.Visit, j *builds.Job, before []*builds.Job, t actionError) *row {
	r := b.row(v, j, t)
	for i, earlier := range before {
		e := b.row(v, earlier, t)
		e.Attempt = i + 1
		r.Earlier = append(r.Earlier, e)
	}
	if len(r.Earlier) > 0 {
		r.Attempt = len(r.Earlier) + 1
	}
	return r
}

// A filterLink selects the jobs of a page by their state.
type filterLink struct {
	share
	Path string
	Here bool
}

// Filters returns links to the jobs in each state.
func (b *board) Filters() []filterLink {
	var links []filterLink
	for _, s := range b.Shares {
		links = append(links, filterLink{s, selection{State: s.Label, Job: noJob}.path(b.Path), b.chosen.State == s.Label})
	}
	return links
}

// Filtered reports whether the page is a list of some jobs.
func (b *board) Filtered() bool { return b.chosen.Filtered() }

// SearchText returns what was searched for.
func (b *board) SearchText() string { return b.chosen.Text }

// Searchable reports whether the build has enough jobs for a search.
func (b *board) Searchable() bool { return b.chosen.Filtered() || b.found > 10 }

// Showing describes the filter of the page.
func (b *board) Showing() string {
	text := pages.Count(b.found, "job")
	if b.chosen.State != "" {
		text += " " + b.chosen.State
	}
	if b.chosen.Step != "" && len(b.Sections) > 0 {
		text += " of " + b.Sections[0].Units[0].Rows[0].Name
	}
	if b.chosen.Text != "" {
		text += fmt.Sprintf(" with %q", b.chosen.Text)
	}
	return text
}
