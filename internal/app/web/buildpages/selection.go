package buildpages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/rules/flow"
)

// A selection is the part of a build that its page shows, as the query of its address says.
type selection struct {
	Page  int
	Job   string // id of the open job; noJob; "" if the address does not say
	State string // label of a share: only jobs in its states
	Step  string // id: only jobs of the step
	Text  string // only jobs with it in their label or command
}

// noJob is the job in the query of a page on which no job is open.
const noJob = "none"

// maxText is the length limit of a search for jobs.
const maxText = 200

func selectionOf(v *pages.Visit) selection {
	number, _ := strconv.Atoi(v.FormQuery("page"))
	s := selection{Page: max(1, number), Job: v.FormQuery("job"), State: v.FormQuery("state"), Text: core.Cut(strings.TrimSpace(v.FormQuery("q")), maxText)}
	s.Step, _ = core.ParseID(v.FormQuery("step"))
	if s.Job != noJob {
		s.Job, _ = core.ParseID(s.Job)
	}
	if !slices.ContainsFunc(shareOrder, func(of shareKind) bool { return of.label == s.State }) {
		s.State = ""
	}
	return s
}

// Filtered reports whether the page is a list of some jobs.
func (s selection) Filtered() bool { return s.State != "" || s.Step != "" || s.Text != "" }

// query returns the query of the page's address.
func (s selection) query() url.Values {
	q := url.Values{}
	if s.Page > 1 {
		q.Set("page", strconv.Itoa(s.Page))
	}
	for name, value := range map[string]string{"job": s.Job, "state": s.State, "step": s.Step, "q": s.Text} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// path returns the address of the selection on the page of a build.
func (s selection) path(build string) string {
	if q := s.query(); len(q) > 0 {
		return build + "?" + q.Encode()
	}
	return build
}

// board returns the query for the jobs of the page.
func (s selection) board() builds.BoardQuery {
	q := builds.BoardQuery{Page: s.Page, JobID: s.Job, StepID: s.Step, Text: s.Text}
	if s.State != "" {
		q.States = statesOf(s.State)
	}
	return q
}

// statesOf returns the states of a share.
func statesOf(label string) []flow.JobState {
	for _, of := range shareOrder {
		if of.label == label {
			return of.states
		}
	}
	return nil
}
