package flow

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
)

// AddSteps adds the steps that a running job uploads, behind the job's step. Steps that depend on the job's
// step depend on the new ones too. With replace, steps that have not started are skipped. AddSteps rejects
// duplicate keys and steps that depend on each other, with an error for the user.
func (r *Run) AddSteps(jobID string, specs []Spec, replace bool) error {
	j, err := r.job(jobID)
	if err != nil {
		return err
	}
	if r.halted() || !j.State.Held() {
		return core.Errorf(core.Unprocessable, "Steps can only be uploaded by a job that is running, in a build that is not canceled")
	}
	uploader := r.steps[j.StepID]
	if replace {
		if err := r.replaceAllBut(uploader); err != nil {
			return err
		}
	}
	return r.add(specs, uploader)
}

// replaceAllBut skips all jobs that have not started, except those of one step.
func (r *Run) replaceAllBut(uploader *Step) error {
	steps, err := r.unfinished()
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s == uploader || s.join() {
			continue
		}
		skip := r.jobsOf(s, isUnstarted)
		if len(skip) == s.Jobs {
			s.Replaced = true
			r.changedSteps.add(s)
		}
		for _, j := range skip {
			if err := r.move(j, Skipped); err != nil {
				return err
			}
		}
	}
	return nil
}

// isUnstarted reports whether a job in that state has neither started nor ended.
func isUnstarted(s JobState) bool { return !s.Ended() && !s.Held() }

// afterUploader returns the cursor for steps that u uploads. They follow u in its own list, so a wait among
// them also waits for the steps before u.
func (l *linker) afterUploader(u *Step, specs []Spec) (cursor, error) {
	p := cursor{
		scope:         u.Scope,
		position:      position(u.Position, u.UploadCount),
		defaults:      []Edge{{On: u.ID, AllowFailure: true}},
		barrier:       u.Barrier,
		beforeBarrier: u.BeforeBarrier,
	}
	if !slices.ContainsFunc(specs, Spec.barrier) {
		return p, nil
	}
	after := ""
	if u.Barrier != "" {
		if err := l.r.fetchSteps(u.Barrier); err != nil {
			return p, err
		}
		after = l.r.steps[u.Barrier].Position
	}
	before, err := l.r.store.Between(u.Scope, after, p.position)
	for _, s := range before {
		s = l.r.internStep(s)
		p.segment = append(p.segment, s.ID)
		// Its future uploads come before these steps as well, unless these are among them.
		if s.Uploads != "" && !strings.HasPrefix(p.position, s.Position+".") {
			p.segment = append(p.segment, s.Uploads)
		}
	}
	return p, err
}

// linkUpload makes the dependents of the uploading step depend on the new steps.
func (l *linker) linkUpload(top []string) error {
	u := l.uploader
	u.UploadCount++
	l.r.changedSteps.add(u)
	if u.Uploads == "" {
		if err := l.r.fetchDependents([]*Step{u}); err != nil {
			return err
		}
		u.Uploads = l.join(KindJoin)
		for _, e := range l.r.edgesFrom(u) {
			if l.r.steps[e.Step].Kind != KindQueue { // uploads do not affect the order in a concurrency group
				l.edge(e.Step, u.Uploads, e.AllowFailure)
			}
		}
	}
	for _, id := range top {
		l.edge(u.Uploads, id, false)
	}
	return nil
}

// resolveMissing connects the edges of existing steps that wait for the keys of new steps.
func (l *linker) resolveMissing() error {
	var keys []string
	for _, s := range l.newSteps {
		if s.Key != "" {
			keys = append(keys, s.Key)
		}
	}
	if l.uploader == nil || len(keys) == 0 {
		return nil
	}
	r := l.r
	waiting, err := r.store.Missing(keys...)
	if err != nil {
		return err
	}
	var ends []string
	for _, e := range waiting {
		ends = append(ends, e.Step)
	}
	if err := r.fetchSteps(ends...); err != nil {
		return err
	}
	for _, e := range waiting {
		e.On = l.keys[e.Key].ID // it has not ended, so the dependency is still unmet
		r.steps[e.Step].Missing--
		r.changedSteps.add(r.steps[e.Step])
		r.resolved = append(r.resolved, e)
		r.addedEdges[e.On] = append(r.addedEdges[e.On], e)
	}
	return nil
}
