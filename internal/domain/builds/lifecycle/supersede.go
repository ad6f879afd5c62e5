package lifecycle

import (
	"context"
	"slices"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/rules/flow"
)

// newerBuild is the cancel reason of superseded builds.
const newerBuild = "A newer build of the branch was made"

// superseded reports whether a build ended because of a newer one.
func superseded(b *builds.Build) bool {
	return b.State == flow.BuildSkipped || b.State == flow.BuildCanceled && b.CancelReason == newerBuild
}

// supersede skips or cancels older builds of a new build's branch, according to the settings of its pipeline.
func (s *Service) supersede(ctx context.Context, orgID, buildID string) error {
	var older []string
	var skip, cancel bool
	err := s.db.Read(ctx, func(q *db.Q) error {
		b, err := builds.ByID(q, orgID, buildID)
		if err != nil {
			return err
		}
		p, err := pipelines.ByID(q, pipelines.System(orgID), b.PipelineID)
		if err != nil {
			return err
		}
		skip = p.SkipQueued.On && core.BranchFilter(p.SkipQueued.Filter).Match(b.Branch)
		cancel = p.CancelRunning.On && core.BranchFilter(p.CancelRunning.Filter).Match(b.Branch)
		older, err = db.Strings(q, `
			SELECT id FROM builds
			WHERE pipeline_id = $1 AND branch = $2 AND number < $3 AND finished_at IS NULL
			ORDER BY number`, b.PipelineID, b.Branch, b.Number)
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return nil // deleted with its pipeline
	}
	if err != nil {
		return err
	}
	for _, id := range older {
		err := s.change(ctx, orgID, id, func(u *unit) error {
			switch state := u.build.State; {
			case skip && state == flow.BuildScheduled:
				return u.run.SkipBuild()
			case cancel && slices.Contains([]flow.BuildState{flow.BuildRunning, flow.BuildFailing, flow.BuildBlocked}, state):
				return u.cancel(newerBuild)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cancel cancels the build. reason may be empty.
func (u *unit) cancel(reason string) error {
	if err := u.run.CancelBuild(); err != nil {
		return err
	}
	u.build.CancelReason = reason
	_, err := u.q.Exec(`UPDATE builds SET cancel_reason = $2 WHERE id = $1`, u.build.ID, db.Text(reason))
	return err
}

// CancelBranch cancels the unfinished builds of a branch.
func (s *Service) CancelBranch(ctx context.Context, orgID, pipelineID, branch, reason string) error {
	var ids []string
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		ids, err = db.Strings(q, `
			SELECT id FROM builds
			WHERE organization_id = $1 AND pipeline_id = $2 AND branch = $3 AND finished_at IS NULL
			ORDER BY number`, orgID, pipelineID, branch)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := s.change(ctx, orgID, id, func(u *unit) error {
			if !u.build.FinishedAt.IsZero() {
				return nil
			}
			return u.cancel(reason)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
