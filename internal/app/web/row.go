package web

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// A row is a job as the page shows it.
type row struct {
	*builds.Job
	board   *board
	Look    look
	Name    string
	Earlier []*row // attempts
	Attempt int    // which one it is, from 1; 0 for a job that was not retried
	Open    bool
	Latest  *timeline.Event // the last word of a stack about a job that nothing runs yet
	Fields  []field         // of a job that waits for a person
	Panel   *panel          // when it is open
	HTML    template.HTML   // all of this, once it is rendered

	MayRetry, MayCancel, MayUnblock bool
}

// A panel is what an open job shows besides its log.
type panel struct {
	Details bool // is false for visitors, who see the log alone
	Why     string
	Events  []timeline.Event
	// Stack is the one that dealt with the job, if one did.
	Stack string
}

func (b *board) row(v *visit, j *builds.Job, open string, t trouble) *row {
	r := &row{Job: j.Shown(b.Pipeline), board: b, Look: lookOfJob(j)}
	r.Name = nameOf(r.Job)
	on := builds.OnJob{Job: j, Build: b.Build, Pipeline: b.Pipeline}
	if v.session != nil {
		mutable := !b.Pipeline.Archived()
		r.MayRetry = mutable && b.MayBuild && j.MayRetry(b.Build) == nil
		r.MayCancel = b.MayBuild && j.Type == flow.Script && !j.State.Ended() && j.State != flow.Canceling && j.State != flow.TimingOut
		r.MayUnblock = mutable && j.State == flow.Blocked && on.Permits(v.Request, identity.UnblockJob)
	}
	if r.MayUnblock && j.Work.Manual != nil {
		r.Fields = fieldsOf(j, t)
	}
	if j.ID == open && (j.Type == flow.Script || j.Type == flow.Trigger) {
		r.Open, b.open = true, r
		r.Panel = &panel{}
	}
	return r
}

// nameOf is what people call a job.
func nameOf(j *builds.Job) string {
	if j.Label != "" {
		return j.Label
	}
	switch j.Type {
	case flow.Waiter:
		return "Wait"
	case flow.Manual:
		return "Unblock"
	case flow.Trigger:
		if j.Work.Trigger == nil { // a visitor does not see it
			return "Trigger"
		}
		return "Trigger " + j.Work.Trigger.Pipeline
	}
	first, _, _ := strings.Cut(strings.TrimSpace(j.Work.Command), "\n")
	return cmp.Or(first, "Job")
}

// OpenEarlier reports whether an earlier attempt is open.
func (r *row) OpenEarlier() bool {
	return slices.ContainsFunc(r.Earlier, func(e *row) bool { return e.Open })
}

// EarlierWords say how many earlier attempts there are.
func (r *row) EarlierWords() string { return count(len(r.Earlier), "earlier attempt") }

// ShownExit is how its process ended, where that is not just well.
func (r *row) ShownExit() string {
	switch {
	case r.State != flow.Finished && r.State != flow.TimedOut && r.State != flow.Canceled || r.ExitStatus == nil || *r.ExitStatus == 0 || r.Type != flow.Script:
		return ""
	case r.Signal != "":
		return r.Signal
	}
	return fmt.Sprintf("exit %d", *r.ExitStatus)
}

// SubmitWords are on the button that unblocks the job.
func (r *row) SubmitWords() string {
	if r.Work.Manual != nil && r.Work.Manual.Submit != "" {
		return r.Work.Manual.Submit
	}
	return "Unblock"
}

// Path is where things are done to the job, within the site.
func (r *row) Path() string { return r.board.Path + "/jobs/" + r.ID }

// Link is where the job is open, or where it is closed again.
func (r *row) Link() string {
	if !r.Open {
		return r.board.Path + "?job=" + r.ID + "#" + r.ID
	}
	return r.board.page(r.board.PageNumber) + "#open-" + r.ID
}

// Openable reports whether there is anything to see of the job.
func (r *row) Openable() bool { return r.Type == flow.Script || r.Type == flow.Trigger }

// Variation is what tells the job from others of its step.
func (r *row) Variation() string {
	var parts []string
	if r.ParallelIndex != nil && r.ParallelTotal != nil {
		parts = append(parts, fmt.Sprintf("%d of %d", *r.ParallelIndex+1, *r.ParallelTotal))
	}
	switch values := r.Matrix.(type) {
	case string:
		parts = append(parts, values)
	case map[string]any:
		for _, dimension := range slices.Sorted(maps.Keys(values)) {
			parts = append(parts, fmt.Sprintf("%s: %v", dimension, values[dimension]))
		}
	}
	return strings.Join(parts, ", ")
}

// ChildPath is the path of the build that a trigger job started, "" when there is none to be shown.
func (r *row) ChildPath() string {
	if r.Child.ID == "" {
		return ""
	}
	return pathOf(r.board.Org, r.Child.Slug, r.Child.Number)
}

// readPanel reads what an open job shows.
func (b *board) readPanel(v *visit) (err error) {
	if b.open == nil || b.Pipeline.Visited() {
		return nil
	}
	j, p := b.open.Job, b.open.Panel
	p.Details = true
	if !j.Passed() && !j.Failed() && !j.SoftFailed || j.State == flow.Expired || j.State == flow.Broken {
		if p.Why, err = b.site.Timeline.Explain(v.Context(), builds.OnJob{Job: j, Build: b.Build, Pipeline: b.Pipeline}); err != nil {
			return err
		}
	}
	err = b.site.DB.Read(v.Context(), func(q *db.Q) (err error) {
		p.Events, err = b.site.Timeline.Of(q, j)
		return err
	})
	for _, e := range p.Events {
		p.Stack = cmp.Or(e.Stack, p.Stack)
	}
	return err
}
