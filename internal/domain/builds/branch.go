package builds

import (
	"context"

	"stackyard/internal/platform/db"
)

// shortCommit is the length to which Bitbucket Cloud cuts the commits of pull requests.
const shortCommit = 12

// BuiltCommit returns the commit of a build of the pipeline that is the given one, or "". Either of them can be cut, so
// the result can be longer than what is given.
func BuiltCommit(q *db.Q, orgID, pipelineID, commit string) (found string, err error) {
	// "g" sorts after every digit of a SHA.
	err = q.QueryRow(`
		SELECT COALESCE(
			(SELECT MAX(commit_name) FROM builds WHERE organization_id = $1 AND commit_name >= $2 AND commit_name < $3 AND pipeline_id = $4),
			(SELECT MAX(commit_name) FROM builds WHERE organization_id = $1 AND commit_name = $5 AND pipeline_id = $4),
			'')`,
		orgID, commit, commit+"g", pipelineID, commit[:min(len(commit), shortCommit)]).Scan(&found)
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
