package builds

import (
	"errors"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// NoUpload is the message for an unknown upload.
const NoUpload = "No step upload found"

const selectUpload = `
	SELECT u.id, u.build_id, u.job_id, u.state, u.replaces, u.created_jobs, COALESCE(u.rejection, ''), u.message, u.bytes,
		u.definition, u.created_at, u.Sequence
	FROM step_uploads u`

func scanUpload(scan db.Scan) (*StepUpload, error) {
	u := &StepUpload{}
	return u, scan(&u.ID, &u.BuildID, &u.JobID, &u.State, &u.Replace, &u.CreatedJobs, &u.Rejection, db.ToText(&u.Message), &u.Bytes,
		db.ToText(&u.Definition), db.ToTime(&u.CreatedAt), &u.Sequence)
}

// findUpload returns an upload of a build, nil when there is none.
func findUpload(q *db.Q, buildID, id string) (*StepUpload, error) {
	u, err := db.One(q, scanUpload, selectUpload+` WHERE u.build_id = $1 AND u.id = $2`, buildID, id)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return u, err
}

// insertUpload adds an upload unless it exists.
func insertUpload(q *db.Q, u *StepUpload) error {
	_, err := q.Exec(`
		INSERT INTO step_uploads (build_id, id, job_id, sequence, state, replaces, created_jobs, rejection, message, bytes, definition, env, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (build_id, id) DO NOTHING`,
		u.BuildID, u.ID, u.JobID, u.Sequence, u.State, u.Replace, number(u.CreatedJobs), db.Text(string(u.Rejection)), db.Text(u.Message), u.Bytes,
		db.Text(u.Definition), db.JSON(u.env), db.Micros(u.CreatedAt))
	return err
}

// uploadEnv returns the variables of an upload's definition, which apply to all of its steps.
func uploadEnv(q *db.Q, buildID, id string) (env map[string]string, err error) {
	err = q.QueryRow(`SELECT env FROM step_uploads WHERE build_id = $1 AND id = $2`, buildID, id).Scan(db.ToJSON(&env))
	return env, err
}

// groupOf returns the id and the label of the group of a job's step, "" when it is in none.
func groupOf(q *db.Q, jobID string) (id, label string, err error) {
	err = q.QueryRow(`
		SELECT g.id, d.label
		FROM jobs j
		JOIN steps s ON s.id = j.step_id
		JOIN steps g ON g.id = s.scope
		JOIN step_details d ON d.step_id = g.id
		WHERE j.id = $1`, jobID).Scan(&id, &label)
	if errors.Is(err, db.ErrNoRows) {
		err = nil
	}
	return id, label, err
}

// ListUploads returns a page of a build's uploads, newest first; a page with Before is in reverse order. Unless jobID
// is empty, it returns only those of one job.
func ListUploads(q *db.Q, buildID, jobID string, page route.CursorPage) ([]*StepUpload, error) {
	var s db.Statement
	s.Where("u.build_id = %s", buildID)
	if jobID != "" {
		s.Where("u.job_id = %s", jobID)
	}
	order := "u.Sequence DESC"
	switch {
	case page.After != nil:
		s.Where("u.Sequence < %s", page.After[0])
	case page.Before != nil:
		s.Where("u.Sequence > %s", page.Before[0])
		order = "u.Sequence"
	}
	return db.All(q, scanUpload, selectUpload+`
	`+s.Clause()+`
	ORDER BY `+order+`
	LIMIT `+s.Arg(page.Limit()), s.Args()...)
}

// UploadByID returns an upload of a build, or a NotFound error.
func UploadByID(q *db.Q, buildID, id string) (*StepUpload, error) {
	u, err := findUpload(q, buildID, id)
	if err == nil && u == nil {
		err = core.Errorf(core.NotFound, NoUpload)
	}
	return u, err
}
