package flow

import (
	"slices"
	"strings"

	"stackyard/internal/platform/core"
)

// AddSteps adds the steps that a running job uploads, behind the job's step. What depends on that
// step depends on the new ones too. With replace, all that has not started yet makes way for them.
// A key that is taken, or steps that depend on each other, are refused with an error for a person.
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

// replaceAllBut skips all jobs that have not started, but not those of one step.
func (r *Run) replaceAllBut(spared *Step) error {
	steps, err := r.unfinished()
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s == spared || s.join() {
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

// isUnstarted reports whether nobody has a job in that state in hand yet.
func isUnstarted(s JobState) bool { return !s.Ended() && !s.Held() }

// afterUploader returns the place of steps that a step uploads. They follow it in its own list, so a wait
// among them waits for what is before the uploading step too.
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
		// What it may upload in future is before these steps as well, unless they are among it.
		if s.Uploads != "" && !strings.HasPrefix(p.position, s.Position+".") {
			p.segment = append(p.segment, s.Uploads)
		}
	}
	return p, err
}

// linkUpload makes all that depends on the uploading step depend on the new steps.
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
			if l.r.steps[e.Step].Kind != KindQueue { // whose turn it is has nothing to do with uploads
				l.edge(e.Step, u.Uploads, e.AllowFailure)
			}
		}
	}
	for _, id := range top {
		l.edge(u.Uploads, id, false)
	}
	return nil
}

// resolveMissing gives existing steps the steps with the keys that they wait for.
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
		e.On = l.keys[e.Key].ID // it has not ended, so the dependency stays unmet
		r.steps[e.Step].Missing--
		r.changedSteps.add(r.steps[e.Step])
		r.resolved = append(r.resolved, e)
		r.addedEdges[e.On] = append(r.addedEdges[e.On], e)
	}
	return nil
}
