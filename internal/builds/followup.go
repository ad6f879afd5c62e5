package builds

import (
	"context"
	"slices"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/flow"
	"stackyard/internal/pipelines"
)

// followUps are what a unit of work means for other builds.
type followUps struct {
	start     []jobOf       // trigger jobs whose builds are to be made
	abandon   []jobOf       // trigger jobs whose builds nobody waits for any more
	ended     []jobOf       // trigger jobs whose builds have ended
	supersede []superseding // new builds that make older ones pointless
}

type jobOf struct{ orgID, jobID string }

type superseding struct {
	build        *Build
	skip, cancel pipelines.BranchRule
}

// note takes down what follows from the changes to a build.
func (f *followUps) note(b *Build, changes flow.Changes) {
	for _, change := range changes.Jobs {
		if change.Job.Type != flow.Trigger || change.Job.State == change.From {
			continue
		}
		job := jobOf{b.OrganizationID, change.Job.ID}
		switch change.Job.State {
		case flow.Scheduled:
			f.start = append(f.start, job)
		case flow.Canceled:
			f.abandon = append(f.abandon, job)
		}
	}
	moved := changes.BuildStates
	if b.TriggeredBy != "" && len(moved) > 0 && moved[len(moved)-1].Ended() {
		f.ended = append(f.ended, jobOf{b.OrganizationID, b.TriggeredBy})
	}
}

// follow does what follows, each in a unit of work of its own. What fails is tried again by CatchUp.
func (s *Service) follow(ctx context.Context, f *followUps) {
	for _, newer := range f.supersede {
		s.report(ctx, s.supersede(ctx, newer), "make way for a newer build", newer.build.ID)
	}
	for _, job := range f.start {
		s.report(ctx, s.startChild(ctx, job), "start a triggered build", job.jobID)
	}
	for _, job := range f.abandon {
		s.report(ctx, s.abandonChild(ctx, job), "cancel a triggered build", job.jobID)
	}
	for _, job := range f.ended {
		s.report(ctx, s.endChild(ctx, job), "tell of a triggered build's end", job.jobID)
	}
}

func (s *Service) report(ctx context.Context, err error, doing, id string) {
	if err != nil {
		s.log.ErrorContext(ctx, "a consequence for another build failed", "doing", doing, "id", id, "error", err)
	}
}

// CatchUp does what a crash has kept from following: trigger jobs without a build, and such whose builds
// have ended unnoticed.
func (s *Service) CatchUp(ctx context.Context) error {
	var f followUps
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if f.start, err = triggerJobs(q, `j.state = 'scheduled'`); err != nil {
			return err
		}
		f.ended, err = triggerJobs(q, `j.state = 'running' AND EXISTS (
			SELECT 1 FROM builds c WHERE c.triggered_by = j.id AND c.finished_at IS NOT NULL)`)
		return err
	})
	if err != nil {
		return err
	}
	s.follow(ctx, &f)
	return nil
}

func triggerJobs(q *db.Q, where string) ([]jobOf, error) {
	return db.All(q, func(scan db.Scan) (j jobOf, err error) { return j, scan(&j.orgID, &j.jobID) }, `
		SELECT j.organization_id, j.id FROM jobs j
		WHERE j.type = 'trigger' AND `+where+`
		ORDER BY j.id`)
}

// supersede skips or cancels older builds of a new build's branch, as its pipeline says.
func (s *Service) supersede(ctx context.Context, newer superseding) error {
	b := newer.build
	skip := newer.skip.On && core.BranchFilter(newer.skip.Filter).Match(b.Branch)
	cancel := newer.cancel.On && core.BranchFilter(newer.cancel.Filter).Match(b.Branch)
	var older []string
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		older, err = db.All(q, scanID, `
			SELECT id FROM builds
			WHERE pipeline_id = $1 AND branch = $2 AND number < $3 AND finished_at IS NULL
			ORDER BY number`, b.PipelineID, b.Branch, b.Number)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range older {
		err := s.change(ctx, b.OrganizationID, id, func(u *unit) error {
			switch state := u.build.State; {
			case skip && state == flow.BuildScheduled:
				return u.run.SkipBuild()
			case cancel && slices.Contains([]flow.BuildState{flow.BuildRunning, flow.BuildFailing, flow.BuildBlocked}, state):
				return u.cancel("A newer build of the branch was made")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cancel cancels the build for a reason.
func (u *unit) cancel(reason string) error {
	if err := u.run.CancelBuild(); err != nil {
		return err
	}
	u.build.CancelReason = reason
	_, err := u.q.Exec(`UPDATE builds SET cancel_reason = $2 WHERE id = $1`, u.build.ID, db.Text(reason))
	return err
}
