package builds

import (
	"context"

	"stackyard/internal/platform/db"
)

// HasCommit reports whether a pipeline has a build of a commit, which can be the beginning of a SHA.
func HasCommit(q *db.Q, orgID, pipelineID, commit string) (found bool, err error) {
	// "g" sorts after every digit of a SHA.
	err = q.QueryRow(`
		SELECT EXISTS (
			SELECT 1 FROM builds
			WHERE organization_id = $1 AND commit_name >= $2 AND commit_name < $3 AND pipeline_id = $4)`,
		orgID, commit, commit+"g", pipelineID).Scan(&found)
	return found, err
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
