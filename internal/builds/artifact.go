package builds

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
)

// An Artifact is what is known of a file that a job has left behind. Its bytes are elsewhere.
type Artifact struct {
	ID        string
	BuildID   string
	JobID     string
	State     ArtifactState
	Path      string // with slashes, relative
	MimeType  string
	FileSize  int64
	SHA1      string
	SHA256    string
	Location  string // where its bytes are
	CreatedAt time.Time
}

// ArtifactState is what became of an artifact.
type ArtifactState string

// The states of artifacts.
const (
	ArtifactNew      ArtifactState = "new" // its bytes are on their way
	ArtifactError    ArtifactState = "error"
	ArtifactFinished ArtifactState = "finished"
	ArtifactDeleted  ArtifactState = "deleted"
	ArtifactExpired  ArtifactState = "expired"
)

// Values lists every state.
func (ArtifactState) Values() []string {
	return []string{string(ArtifactNew), string(ArtifactError), string(ArtifactFinished), string(ArtifactDeleted), string(ArtifactExpired)}
}

const noArtifact = "No artifact found"

// AddArtifacts notes files that a job is about to leave behind, and gives them ids.
func (s *Service) AddArtifacts(ctx context.Context, j *Job, list []Artifact) ([]Artifact, error) {
	list = slices.Clone(list)
	now := s.clock()
	inserted := newRows(`
		INSERT INTO artifacts (id, organization_id, build_id, job_id, state, path, mime_type, file_size, sha1sum, sha256sum, location, created_at) VALUES`, "")
	for i := range list {
		a := &list[i]
		a.ID, a.BuildID, a.JobID, a.State, a.CreatedAt = core.NewID(), j.BuildID, j.ID, ArtifactNew, now
		inserted.add(a.ID, j.OrganizationID, a.BuildID, a.JobID, a.State, a.Path, a.MimeType, a.FileSize, a.SHA1, db.Text(a.SHA256), a.Location, db.Micros(a.CreatedAt))
	}
	return list, s.db.Write(ctx, func(q *db.Q) error {
		rows := *inserted // the function may be run again
		return rows.insert(q)
	})
}

// MoveArtifacts notes what became of a job's artifacts, by their ids.
func (s *Service) MoveArtifacts(ctx context.Context, j *Job, states map[string]ArtifactState) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		for _, id := range slices.Sorted(slices.Values(keys(states))) {
			_, err := q.Exec(`
				UPDATE artifacts SET state = $4
				WHERE organization_id = $1 AND job_id = $2 AND id = $3 AND state <> $5`, j.OrganizationID, j.ID, id, states[id], ArtifactDeleted)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const selectArtifact = `
	SELECT a.id, a.build_id, a.job_id, a.state, a.path, a.mime_type, a.file_size, a.sha1sum, a.sha256sum, a.location, a.created_at
	FROM artifacts a`

func scanArtifact(scan db.Scan) (a Artifact, err error) {
	return a, scan(&a.ID, &a.BuildID, &a.JobID, &a.State, &a.Path, &a.MimeType, &a.FileSize, &a.SHA1, db.ToText(&a.SHA256), &a.Location, db.ToTime(&a.CreatedAt))
}

// artifactByID returns an artifact of a job that is not deleted, or a NotFound error.
func artifactByID(q *db.Q, jobID, id string) (Artifact, error) {
	a, err := db.One(q, scanArtifact, selectArtifact+` WHERE a.job_id = $1 AND a.id = $2 AND a.state <> $3`, jobID, id, ArtifactDeleted)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noArtifact)
	}
	return a, err
}

// artifactsByPath returns the newest finished artifact of a build for each of the paths that has one.
func artifactsByPath(q *db.Q, buildID string, paths []string) (map[string]Artifact, error) {
	in, arg := q.In("a.path", 2, paths)
	list, err := db.All(q, scanArtifact, selectArtifact+` WHERE a.build_id = $1 AND `+in+` AND a.state = $3 ORDER BY a.id`, buildID, arg, ArtifactFinished)
	byPath := make(map[string]Artifact, len(list))
	for _, a := range list {
		byPath[a.Path] = a
	}
	return byPath, err
}

// listArtifacts returns one page of the artifacts that a statement allows, oldest first, and how many
// there are.
func listArtifacts(q *db.Q, s *db.Statement, limit, offset int) ([]Artifact, int, error) {
	var total int
	if err := q.QueryRow(`SELECT COUNT(*) FROM artifacts a `+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, 0, err
	}
	list, err := db.All(q, scanArtifact, selectArtifact+`
	`+s.Clause()+`
	ORDER BY a.id
	LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return list, total, err
}

// artifactFilter says which artifacts are listed.
type artifactFilter struct{ state, path string }

// restrict limits a statement to the artifacts a that pass the filter. Deleted ones never do.
func (f artifactFilter) restrict(s *db.Statement) error {
	s.Where("a.state <> %s", ArtifactDeleted)
	if f.state != "" {
		if !slices.Contains(ArtifactState("").Values(), f.state) {
			return core.Errorf(core.Unprocessable, "%q is not a state of an artifact; they are %s", f.state, strings.Join(ArtifactState("").Values(), ", "))
		}
		s.Where("a.state = %s", f.state)
	}
	switch {
	case strings.Contains(f.path, "*"):
		s.Where(`a.path LIKE %s ESCAPE '\'`, strings.ReplaceAll(db.Like(f.path), "*", "%"))
	case f.path != "":
		s.Where("a.path = %s", f.path)
	}
	return nil
}
