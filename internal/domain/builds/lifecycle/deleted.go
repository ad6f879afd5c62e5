package lifecycle

import (
	"context"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/tasks"
	"stackyard/internal/rules/flow"
)

// afterPipelineDeleted unblocks builds that waited for builds of a deleted pipeline: jobs get its slots in
// concurrency groups, and trigger jobs of its builds finish. The task's key is the organization id.
func (s *Service) afterPipelineDeleted(ctx context.Context, t *tasks.Due) error {
	orgID := t.Key
	var orphans []string
	var waiting []queuedGroup
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		if orphans, err = orphanedTriggers(q, orgID); err != nil {
			return err
		}
		waiting, err = queuedGroups(q, orgID)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range orphans {
		if err := s.endChild(ctx, jobOf{orgID, id}); err != nil {
			return err
		}
	}
	for _, g := range waiting {
		err := s.change(ctx, orgID, g.buildID, func(u *unit) error {
			u.groups = append(u.groups, g.name)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// orphanedTriggers returns the running trigger jobs of an organization whose builds were deleted.
func orphanedTriggers(q *db.Q, orgID string) ([]string, error) {
	return db.Strings(q, `
		SELECT j.id FROM pipelines p
		JOIN builds b ON b.pipeline_id = p.id
		JOIN jobs j ON j.build_id = b.id
		WHERE p.organization_id = $1 AND p.deleted_at IS NULL AND b.finished_at IS NULL AND j.type = $2 AND j.state = $3
			AND NOT EXISTS (SELECT 1 FROM builds c WHERE c.triggered_by = j.id)
		ORDER BY j.id`, orgID, flow.Trigger, flow.Running)
}

// A queuedGroup is a concurrency group with waiting jobs, one of them of the build.
type queuedGroup struct{ name, buildID string }

func queuedGroups(q *db.Q, orgID string) ([]queuedGroup, error) {
	return db.All(q, func(scan db.Scan) (g queuedGroup, err error) { return g, scan(&g.name, &g.buildID) }, `
		SELECT j.concurrency_group, MIN(j.build_id)
		FROM jobs j
		JOIN builds b ON b.id = j.build_id
		JOIN pipelines p ON p.id = b.pipeline_id
		WHERE j.organization_id = $1 AND j.queued AND p.deleted_at IS NULL
		GROUP BY j.concurrency_group
		ORDER BY j.concurrency_group`, orgID)
}
