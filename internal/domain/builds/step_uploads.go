package builds

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
)

// A StepUpload is the result of an upload.
type StepUpload struct {
	ID          string
	BuildID     string
	JobID       string // the job that uploaded
	State       UploadState
	Replace     bool
	CreatedJobs *int // nil if rejected
	Rejection   RejectionType
	Message     string // why it was rejected
	Bytes       int    // the length of the definition
	Definition  string // empty if too large to be stored
	CreatedAt   time.Time
	Sequence    string // orders the uploads of a build
}

// UploadState is the result of an upload.
type UploadState string

// The states of uploads.
const (
	UploadApplied  UploadState = "applied"
	UploadRejected UploadState = "rejected"
)

// Values lists every state.
func (UploadState) Values() []string {
	return []string{string(UploadApplied), string(UploadRejected)}
}

// RejectionType is why an upload was rejected.
type RejectionType string

// The types of rejections.
const (
	InvalidDefinition RejectionType = "invalid_definition" // it cannot be parsed
	RefusedSteps      RejectionType = "refused_steps"      // the build cannot have its steps
)

// Values lists every type.
func (RejectionType) Values() []string {
	return []string{string(InvalidDefinition), string(RefusedSteps)}
}

// StepUpload returns an upload of a build, or a NotFound error.
func (s *Reader) StepUpload(ctx context.Context, orgID, buildID, id string) (u *StepUpload, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		if _, err = ByID(q, orgID, buildID); err != nil {
			return err
		}
		u, err = UploadByID(q, buildID, id)
		return err
	})
	return u, err
}

// Omitted reports whether the definition was too large to be stored.
func (u *StepUpload) Omitted() bool { return u.Bytes > MaxKept }

// MaxKept bounds the definitions that are stored, in bytes.
const MaxKept = 100_000

// NoUpload is the message for an unknown upload.
const NoUpload = "No step upload found"

const selectUpload = `
	SELECT u.id, u.build_id, u.job_id, u.state, u.replaces, u.created_jobs, COALESCE(u.rejection, ''), u.message, u.bytes,
		u.definition, u.created_at, u.sequence
	FROM step_uploads u`

func scanUpload(scan db.Scan) (*StepUpload, error) {
	u := &StepUpload{}
	return u, scan(&u.ID, &u.BuildID, &u.JobID, &u.State, &u.Replace, &u.CreatedJobs, &u.Rejection, db.ToText(&u.Message), &u.Bytes,
		db.ToText(&u.Definition), db.ToTime(&u.CreatedAt), &u.Sequence)
}

// uploadEnv returns the variables of an upload's definition, which apply to all of its steps.
func uploadEnv(q *db.Q, buildID, id string) (env map[string]string, err error) {
	err = q.QueryRow(`SELECT env FROM step_uploads WHERE build_id = $1 AND id = $2`, buildID, id).Scan(db.ToJSON(&env))
	return env, err
}

// ListUploads returns a page of a build's uploads, newest first; a page with Before is in reverse order. Unless jobID
// is empty, it returns only those of one job.
func ListUploads(q *db.Q, buildID, jobID string, page route.CursorPage) ([]*StepUpload, error) {
	var s db.Statement
	s.Where("u.build_id = %s", buildID)
	if jobID != "" {
		s.Where("u.job_id = %s", jobID)
	}
	order := "u.sequence DESC"
	switch {
	case page.After != nil:
		s.Where("u.sequence < %s", page.After[0])
	case page.Before != nil:
		s.Where("u.sequence > %s", page.Before[0])
		order = "u.sequence"
	}
	return db.All(q, scanUpload, selectUpload+`
	`+s.Clause()+`
	ORDER BY `+order+`
	LIMIT `+s.Arg(page.Limit()), s.Args()...)
}

// UploadByID returns an upload of a build, or a NotFound error.
func UploadByID(q *db.Q, buildID, id string) (*StepUpload, error) {
	u, err := db.One(q, scanUpload, selectUpload+` WHERE u.build_id = $1 AND u.id = $2`, buildID, id)
	if errors.Is(err, db.ErrNoRows) {
		return nil, core.Errorf(core.NotFound, NoUpload)
	}
	return u, err
}
