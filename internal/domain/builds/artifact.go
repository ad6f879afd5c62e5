package builds

import (
	"context"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// An Artifact is what is known of a file that a job has left behind. Its bytes are elsewhere.
type Artifact struct {
	ID             string
	OrganizationID string
	PipelineID     string
	BuildID        string
	JobID          string
	State          ArtifactState
	Path           string // with slashes
	MimeType       string
	FileSize       int64
	SHA1           string // in hex; empty: not told
	SHA256         string // in hex; empty: not told
	// Destination is the place of the agent's own that the bytes went to, and Location where there; both
	// are empty for bytes that the server keeps, in a number of Parts.
	Destination string
	Location    string
	Parts       int
	CreatedAt   time.Time
}

// Prefix is what the keys of the artifact's blobs begin with.
func (a Artifact) Prefix() string {
	return Prefix(a.OrganizationID, a.PipelineID, a.BuildID) + "/artifacts/" + a.ID
}

// Kept reports whether the server keeps the bytes.
func (a Artifact) Kept() bool { return a.Location == "" }

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

const (
	// maxArtifacts is how many artifacts a job can have, and maxBatch how many of them it tells of at a time.
	maxArtifacts = 5_000
	maxBatch     = 100
	// maxArtifact is the size of the largest artifact, in bytes.
	maxArtifact = 10 << 30
	// maxPath is the length of the longest path, in bytes.
	maxPath = 1024
)

var sha1Sum = regexp.MustCompile(`^[0-9a-f]{40}$`)

// check puts what is told of an artifact into its usual form, or returns what is wrong with it.
func (a *Artifact) check() error {
	a.SHA1, a.SHA256 = strings.ToLower(a.SHA1), strings.ToLower(a.SHA256)
	a.MimeType = kindOf(a.MimeType, a.Path)
	switch {
	case a.Path == "" || path.Base(a.Path) == "." || strings.HasSuffix(a.Path, "/"):
		return core.Errorf(core.Unprocessable, "%q is not the path of a file", a.Path)
	case len(a.Path) > maxPath:
		return core.Errorf(core.Unprocessable, "The path of an artifact can have %d bytes, not %d", maxPath, len(a.Path))
	case strings.ContainsFunc(a.Path, unicode.IsControl):
		return core.Errorf(core.Unprocessable, "The path %q has characters in it that cannot be seen", a.Path)
	case a.FileSize < 0 || a.FileSize > maxArtifact:
		return core.Errorf(core.Unprocessable, "%s has %d bytes; an artifact can have %d", a.Path, a.FileSize, maxArtifact)
	case a.SHA1 != "" && !sha1Sum.MatchString(a.SHA1):
		return core.Errorf(core.Unprocessable, "The sha1sum of %s is not a SHA-1 in hex", a.Path)
	case a.SHA256 != "" && (len(a.SHA256) != 64 || !sha.MatchString(a.SHA256)):
		return core.Errorf(core.Unprocessable, "The sha256sum of %s is not a SHA-256 in hex", a.Path)
	case len(a.Location) > maxURL || len(a.Destination) > maxURL:
		return core.Errorf(core.Unprocessable, "The url and the upload_destination of %s can have %d bytes each", a.Path, maxURL)
	case a.Location != "" && a.Destination == "":
		return core.Errorf(core.Unprocessable, "%s has a url and no upload_destination", a.Path)
	}
	return nil
}

func checkBatch(list []Artifact) error {
	if len(list) > maxBatch {
		return core.Errorf(core.Unprocessable, "%d artifacts are too many at a time; %d are the most", len(list), maxBatch)
	}
	paths := make(map[string]bool, len(list))
	for i := range list {
		if err := list[i].check(); err != nil {
			return err
		}
		if paths[list[i].Path] {
			return core.Errorf(core.Unprocessable, "The path %q comes twice", list[i].Path)
		}
		paths[list[i].Path] = true
	}
	return nil
}

// AddArtifacts notes files that a job is about to leave behind, all different, and gives them ids. A batch
// that was seen before is as it was then.
func (s *Service) AddArtifacts(ctx context.Context, orgID, jobID, batchID string, asked []Artifact) (list []Artifact, err error) {
	batchID, ok := core.ParseID(batchID)
	if !ok {
		return nil, core.Errorf(core.Unprocessable, "The id of a batch of artifacts must be a UUID")
	}
	asked = slices.Clone(asked)
	if err := checkBatch(asked); err != nil {
		return nil, err
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := q.LockName("artifacts of " + jobID); err != nil {
			return err
		}
		if list, err = artifactsOfBatch(q, orgID, jobID, batchID); err != nil {
			return err
		}
		if len(list) > 0 {
			return sameBatch(list, asked)
		}
		if err := insertArtifacts(q, orgID, jobID, batchID, asked, s.clock()); err != nil {
			return err
		}
		list, err = artifactsOfBatch(q, orgID, jobID, batchID)
		return err
	})
	return list, err
}

func sameBatch(was, asked []Artifact) error {
	if !slices.EqualFunc(was, asked, func(a, b Artifact) bool { return a.Path == b.Path && a.FileSize == b.FileSize }) {
		return core.Errorf(core.Unprocessable, "Another batch of artifacts has this id")
	}
	return nil
}

func insertArtifacts(q *db.Q, orgID, jobID, batchID string, list []Artifact, now time.Time) error {
	var buildID string
	var had int
	err := q.QueryRow(`
		SELECT j.build_id, (SELECT COUNT(*) FROM artifacts a WHERE a.job_id = j.id)
		FROM jobs j WHERE j.organization_id = $1 AND j.id = $2`, orgID, jobID).Scan(&buildID, &had)
	if errors.Is(err, db.ErrNoRows) {
		return core.Errorf(core.NotFound, noJob)
	}
	if err != nil {
		return err
	}
	if all := had + len(list); all > maxArtifacts {
		return core.Errorf(core.Unprocessable, "The job would have %d artifacts; %d are the most", all, maxArtifacts)
	}
	inserted := newRows(`
		INSERT INTO artifacts (id, organization_id, build_id, job_id, state, path, mime_type, file_size, sha1sum, sha256sum, location, upload_destination, batch_id, parts, created_at) VALUES`, "")
	for _, a := range list {
		inserted.add(core.NewID(), orgID, buildID, jobID, ArtifactNew, a.Path, a.MimeType, a.FileSize, a.SHA1, db.Text(a.SHA256), a.Location, db.Text(a.Destination), batchID, max(a.Parts, 1), db.Micros(now))
	}
	return inserted.insert(q)
}

// MoveArtifacts notes what became of a job's artifacts, by their ids. Deleted ones stay deleted.
func (s *Service) MoveArtifacts(ctx context.Context, orgID, jobID string, states map[string]ArtifactState) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		for _, id := range slices.Sorted(slices.Values(keys(states))) {
			_, err := q.Exec(`
				UPDATE artifacts SET state = $4
				WHERE organization_id = $1 AND job_id = $2 AND id = $3 AND state <> $5`, orgID, jobID, id, states[id], ArtifactDeleted)
			if err != nil {
				return err
			}
		}
		var buildID string
		err := q.QueryRow(`SELECT build_id FROM jobs WHERE organization_id = $1 AND id = $2`, orgID, jobID).Scan(&buildID)
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		q.Announce(Topic(buildID))
		return err
	})
}

// removeArtifact deletes an artifact, and its bytes soon after.
func (s *Service) removeArtifact(ctx context.Context, a Artifact) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`UPDATE artifacts SET state = $2 WHERE id = $1`, a.ID, ArtifactDeleted)
		if err != nil || !a.Kept() {
			return err
		}
		return pipelines.RemoveBytes(q, a.Prefix(), s.clock())
	})
}
