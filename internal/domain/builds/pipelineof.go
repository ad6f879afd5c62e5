package builds

import (
	"errors"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// PipelineOf returns the id of the pipeline of a build of an organization, or a NotFound error.
func PipelineOf(q *db.Q, orgID, buildID string) (pipelineID string, err error) {
	err = q.QueryRow(`SELECT pipeline_id FROM builds WHERE organization_id = $1 AND id = $2`, orgID, buildID).Scan(&pipelineID)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noBuild)
	}
	return pipelineID, err
}
