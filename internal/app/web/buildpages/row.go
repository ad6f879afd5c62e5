package buildpages

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/jobusage"
	"stackyard/internal/domain/timeline"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/rules/flow"
)

// A row is a job on the page.
type row struct {
	*builds.Job
	board   *board
	Badge   badge
	Name    string
	Earlier []*row // earlier attempts
	Attempt int    // number of the attempt, from 1; 0 for a job that was not retried
	Open    bool
	Latest  *timeline.Event // latest event of a stack about a job that does not run yet
	Fields  []field         // of a job that waits to be unblocked
	Panel   *panel          // if the job is open
	Answers []answer        // values of the fields of a job that was unblocked

	MayRetry, MayCancel, MayUnblock bool
}

// A panel is what an open job shows besides its log.
type panel struct {
	Details bool // false for visitors, who see only the log
	timeline.Explanation
	Events []timeline.Event
	// Exit explains how the process ended; Env is its environment as text.
	Exit string
	Env  string
	// Usage is what the job used, nil if its agent did not report that.
	Usage *jobusage.Usage
	// Stack is the key of the stack that handled the job, if any.
	Stack string
	// Shell and Desktop are set if the visitor can open one in the job.
	Shell, Desktop bool
	// Debug is set if the visitor can retry the job and have it kept when it fails.
	Debug bool
}

func (b *board) row(v *pages.Visit, j *builds.Job, t actionError) *row {
	r := &row{Job: j.Shown(b.Pipeline), board: b, Badge: badgeOfJob(j)}
	r.Name = nameOf(r.Job)
	on := builds.OnJob{Job: j, Build: b.Build, Pipeline: b.Pipeline}
	if v.Session != nil {
		mutable := !b.Pipeline.Archived()
		r.MayRetry = mutable && b.MayBuild && j.MayRetry(b.Build) == nil
		r.MayCancel = b.MayBuild && j.Type == flow.Script && !j.State.Ended() && j.State != flow.Canceling && j.State != flow.TimingOut
		r.MayUnblock = mutable && j.State == flow.Blocked && on.Permits(v.Request, identity.UnblockJob)
	}
	if r.MayUnblock && j.Work.Manual != nil {
		r.Fields = fieldsOf(j, t)
	}
	if j.ID == b.chosen.Job && (j.Type == flow.Script || j.Type == flow.Trigger) {
		r.Open, b.open = true, r
		r.Panel = &panel{}
	}
	return r
}

// nameOf returns the name of a job for users.
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
		if j.Work.Trigger == nil { // hidden from visitors
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

// EarlierText returns the number of earlier attempts as text.
func (r *row) EarlierText() string { return pages.Count(len(r.Earlier), "earlier attempt") }

// ShownExit returns how the process ended, unless it succeeded.
func (r *row) ShownExit() string {
	switch {
	case r.State != flow.Finished && r.State != flow.TimedOut && r.State != flow.Canceled || r.ExitStatus == nil || *r.ExitStatus == 0 || r.Type != flow.Script:
		return ""
	case r.Signal != "":
		return r.Signal
	}
	return fmt.Sprintf("exit %d", *r.ExitStatus)
}

// NotRun returns why the job did not run to its end, if it did not.
func (r *row) NotRun() string { return timeline.NotRun(r.Job) }

// SubmitText returns the label of the button that unblocks the job.
func (r *row) SubmitText() string {
	if r.Work.Manual != nil && r.Work.Manual.Submit != "" {
		return r.Work.Manual.Submit
	}
	return "Unblock"
}

// Path returns the path of the job's actions in the site.
func (r *row) Path() string { return r.board.Path + "/jobs/" + r.ID }

// Link returns the path that opens the job, or closes it if it is open.
func (r *row) Link() string {
	there := r.board.chosen
	there.Job = r.ID
	if r.Open {
		there.Job = noJob
		return there.path(r.board.Path) + "#open-" + r.ID
	}
	return there.path(r.board.Path) + "#" + r.ID
}

// Openable reports whether the job has details.
func (r *row) Openable() bool { return r.Type == flow.Script || r.Type == flow.Trigger }

// Variation returns what distinguishes the job from others of its step.
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

// ChildPath returns the path of the build that a trigger job started, or "".
func (r *row) ChildPath() string {
	if r.Child.ID == "" {
		return ""
	}
	return PathOf(r.board.Org, r.Child.Slug, r.Child.Number)
}

// readPanel reads the details of the open job.
func (b *board) readPanel(v *pages.Visit) (err error) {
	if b.open == nil || b.Pipeline.Visited() {
		return nil
	}
	j, p := b.open.Job, b.open.Panel
	p.Details, p.Exit = true, ExitText(j)
	if j.State != flow.Running && !j.Passed() && !j.Failed() && !j.SoftFailed || j.State == flow.Expired || j.State == flow.Broken {
		if p.Explanation, err = b.site.Timeline.ExplainWithFacts(v.Context(), builds.OnJob{Job: j, Build: b.Build, Pipeline: b.Pipeline}); err != nil {
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

// eventTexts describe events of a job.
var eventTexts = map[string]string{
	"created":          "Created",
	"runnable":         "Ready to run",
	"listed":           "Listed by a stack",
	"reserved":         "Reserved by a stack",
	"token_issued":     "Token issued by a stack",
	"agent_registered": "Agent registered",
	"accepted":         "Accepted by an agent",
	"started":          "Started",
	"finished":         "Finished",
}
