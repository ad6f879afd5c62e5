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

// BuildIDOf returns the id of the build of a job of an organization, or a NotFound error.
func BuildIDOf(q *db.Q, orgID, jobID string) (buildID string, err error) {
	err = q.QueryRow(`SELECT build_id FROM jobs WHERE organization_id = $1 AND id = $2`, orgID, jobID).Scan(&buildID)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noJob)
	}
	return buildID, err
}
