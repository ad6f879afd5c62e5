package organizations

import (
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const noTeamPipeline = "No team pipeline found"

// The conditions that a viewer can see or manage a pipeline p. Their parameters: whether this is true for all
// pipelines, and the viewer's user id.
const (
	visiblePipelines = `
		p.deleted_at IS NULL AND ($1 OR p.visibility = 'public' OR EXISTS (
			SELECT 1 FROM team_pipelines a JOIN team_members v ON v.team_id = a.team_id
			WHERE a.pipeline_id = p.id AND v.user_id = $2))`
	managedPipelines = `
		p.deleted_at IS NULL AND ($1 OR EXISTS (
			SELECT 1 FROM team_pipelines a JOIN team_members v ON v.team_id = a.team_id
			WHERE a.pipeline_id = p.id AND v.user_id = $2 AND a.access_level = 'manage_build_and_read'))`
)

const selectTeamPipeline = `
	SELECT p.id, p.slug, tp.access_level, tp.created_at, ` + managedPipelines + `
	FROM team_pipelines tp
	JOIN pipelines p ON p.id = tp.pipeline_id
	WHERE ` + visiblePipelines

func scanTeamPipeline(scan db.Scan) (TeamPipeline, error) {
	var p TeamPipeline
	return p, scan(&p.PipelineID, &p.PipelineSlug, &p.AccessLevel, db.ToTime(&p.AddedAt), &p.managed)
}

// listTeamPipelines returns one page of the pipelines that a team has access to and the viewer can see, oldest
// entry first, and the total.
func listTeamPipelines(q *db.Q, teamID string, v viewer, limit, offset int) ([]TeamPipeline, int, error) {
	return db.ListPage(q, scanTeamPipeline, selectTeamPipeline+` AND tp.team_id = $3
		ORDER BY tp.created_at, tp.pipeline_id`, `
		SELECT COUNT(*)
		FROM team_pipelines tp
		JOIN pipelines p ON p.id = tp.pipeline_id
		WHERE `+visiblePipelines+` AND tp.team_id = $3`,
		limit, offset, v.allPipelines, v.userID, teamID)
}

func teamPipeline(q *db.Q, team *Team, v viewer, pipelineID string) (TeamPipeline, error) {
	p, err := db.One(q, scanTeamPipeline, selectTeamPipeline+` AND tp.team_id = $3 AND tp.pipeline_id = $4`,
		v.allPipelines, v.userID, team.ID, pipelineID)
	p.Team = team
	return p, db.OrNotFound(err, noTeamPipeline)
}

// lockManagedPipeline returns a pipeline of an organization that the viewer can manage, without a team, or a
// NotFound error. It locks the pipeline until the end of the transaction.
func lockManagedPipeline(q *db.Q, organizationID string, v viewer, id string) (TeamPipeline, error) {
	p := TeamPipeline{PipelineID: id, managed: true}
	if err := q.Lock("pipelines", id); err != nil {
		return p, err
	}
	err := q.QueryRow(`SELECT p.slug FROM pipelines p WHERE `+managedPipelines+` AND p.organization_id = $3 AND p.id = $4`,
		v.allPipelines, v.userID, organizationID, id).Scan(&p.PipelineSlug)
	return p, db.OrNotFound(err, "No pipeline found")
}

// insertTeamPipeline adds access to a pipeline and reports whether the team had none before.
func insertTeamPipeline(q *db.Q, p TeamPipeline) (isNew bool, err error) {
	n, err := teamPipelineRows.Exec(q, p.Team.ID+"/"+p.PipelineID, `
		INSERT INTO team_pipelines (team_id, pipeline_id, access_level, created_at)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, p.Team.ID, p.PipelineID, p.AccessLevel, db.Micros(p.AddedAt))
	return n == 1, err
}

// SetPipelineAccess sets the access level that a team has to a pipeline.
func SetPipelineAccess(q *db.Q, teamID, pipelineID string, level identity.AccessLevel, now time.Time) error {
	_, err := teamPipelineRows.Exec(q, teamID+"/"+pipelineID, `
		INSERT INTO team_pipelines (team_id, pipeline_id, access_level, created_at)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT (team_id, pipeline_id) DO UPDATE SET access_level = excluded.access_level`,
		teamID, pipelineID, level, db.Micros(now))
	return err
}

// updateTeamPipeline changes the access level, or returns a NotFound error.
func updateTeamPipeline(q *db.Q, p TeamPipeline) error {
	n, err := teamPipelineRows.Exec(q, p.Team.ID+"/"+p.PipelineID, `UPDATE team_pipelines SET access_level = $3 WHERE team_id = $1 AND pipeline_id = $2`,
		p.Team.ID, p.PipelineID, p.AccessLevel)
	if err == nil && n == 0 {
		return core.Errorf(core.NotFound, noTeamPipeline)
	}
	return err
}

func deleteTeamPipeline(q *db.Q, p TeamPipeline) error {
	_, err := teamPipelineRows.Exec(q, p.Team.ID+"/"+p.PipelineID, `DELETE FROM team_pipelines WHERE team_id = $1 AND pipeline_id = $2`, p.Team.ID, p.PipelineID)
	return err
}
