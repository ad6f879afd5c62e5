// Package artifacts keeps the records of files that jobs upload: path, size, checksums and upload state.
//
// Agents announce files in batches, upload the bytes and then report the result ([Service.Add],
// [Service.SetStates]); people list, search and delete them over REST. The bytes themselves are stored by the
// packages that serve agents, below [Artifact.Prefix].
package artifacts

import (
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/domain/usage"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

// Service stores the artifacts of jobs.
type Service struct {
	db     *db.DB
	builds *builds.Reader
	clock  core.Clock
}

// New returns the service of the artifacts in a database.
func New(d *db.DB, b *builds.Reader, clock core.Clock) *Service {
	return &Service{db: d, builds: b, clock: clock}
}

// An Artifact is the record of a file that a job uploaded.
type Artifact struct {
	ID             string
	OrganizationID string
	PipelineID     string
	BuildID        string
	JobID          string
	State          State
	Path           string // with slashes
	MimeType       string
	FileSize       int64
	SHA1           string // in hex; empty: unknown
	SHA256         string // in hex; empty: unknown
	// Destination is the agent's own storage that the bytes were uploaded to, and Location their URL there. Both
	// are empty for bytes that the server stores, in a number of Parts.
	Destination string
	Location    string
	Parts       int
	CreatedAt   time.Time
}

// Prefix is the prefix of the keys of the artifact's blobs.
func (a Artifact) Prefix() string {
	return builds.Prefix(a.OrganizationID, a.PipelineID, a.BuildID) + "/artifacts/" + a.ID
}

// Kept reports whether the server stores the bytes.
func (a Artifact) Kept() bool { return a.Location == "" }

// State is the upload state of an artifact.
type State string

// The states.
const (
	StateNew      State = "new" // the upload is in progress
	StateError    State = "error"
	StateFinished State = "finished"
	StateDeleted  State = "deleted"
	StateExpired  State = "expired"
)

// Values lists every state.
func (State) Values() []string {
	return []string{string(StateNew), string(StateError), string(StateFinished), string(StateDeleted), string(StateExpired)}
}

const noArtifact = "No artifact found"

const (
	// maxPerJob bounds the artifacts of a job, and maxBatch those of one request.
	maxPerJob = 5_000
	maxBatch  = 100
	// maxSize bounds the size of an artifact, maxPath the length of its path and maxURL those of its location and
	// destination, in bytes.
	maxSize = 10 << 30
	maxPath = 1024
	maxURL  = 2048
)

var (
	sha1Sum   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sha256Sum = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// check normalizes an artifact that an agent announced, or returns an error for the agent.
func (a *Artifact) check() error {
	a.SHA1, a.SHA256 = strings.ToLower(a.SHA1), strings.ToLower(a.SHA256)
	a.MimeType = mediaType(a.MimeType, a.Path)
	switch {
	case a.Path == "" || path.Base(a.Path) == "." || strings.HasSuffix(a.Path, "/"):
		return core.Errorf(core.Unprocessable, "%q is not the path of a file", a.Path)
	case len(a.Path) > maxPath:
		return core.Errorf(core.Unprocessable, "The path of an artifact can have %d bytes, not %d", maxPath, len(a.Path))
	case strings.ContainsFunc(a.Path, unicode.IsControl):
		return core.Errorf(core.Unprocessable, "The path %q contains invisible characters", a.Path)
	case a.FileSize < 0 || a.FileSize > maxSize:
		return core.Errorf(core.Unprocessable, "%s has %d bytes; an artifact can have %d", a.Path, a.FileSize, maxSize)
	case a.SHA1 != "" && !sha1Sum.MatchString(a.SHA1):
		return core.Errorf(core.Unprocessable, "The sha1sum of %s is not a SHA-1 in hex", a.Path)
	case a.SHA256 != "" && !sha256Sum.MatchString(a.SHA256):
		return core.Errorf(core.Unprocessable, "The sha256sum of %s is not a SHA-256 in hex", a.Path)
	case len(a.Location) > maxURL || len(a.Destination) > maxURL:
		return core.Errorf(core.Unprocessable, "The url and the upload_destination of %s can have %d bytes each", a.Path, maxURL)
	case a.Location != "" && a.Destination == "":
		return core.Errorf(core.Unprocessable, "%s has a url and no upload_destination", a.Path)
	}
	return nil
}

// checkBatch returns an error when artifacts cannot be added together.
func checkBatch(list []Artifact) error {
	if len(list) > maxBatch {
		return core.Errorf(core.Unprocessable, "A batch has at most %[2]d artifacts, not %[1]d", len(list), maxBatch)
	}
	paths := make(map[string]bool, len(list))
	for i := range list {
		if err := list[i].check(); err != nil {
			return err
		}
		if paths[list[i].Path] {
			return core.Errorf(core.Unprocessable, "The path %q is given twice", list[i].Path)
		}
		paths[list[i].Path] = true
	}
	return nil
}

// Add stores the records of files that a job is about to upload and returns them with their ids. It is idempotent
// per batch id.
func (s *Service) Add(ctx context.Context, orgID, jobID, batchID string, announced []Artifact) (list []Artifact, err error) {
	batchID, ok := core.ParseID(batchID)
	if !ok {
		return nil, core.Errorf(core.Unprocessable, "The id of a batch of artifacts must be a UUID")
	}
	announced = slices.Clone(announced)
	if err := checkBatch(announced); err != nil {
		return nil, err
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		if err := q.LockName("artifacts of " + jobID); err != nil {
			return err
		}
		if list, err = ofBatch(q, orgID, jobID, batchID); err != nil {
			return err
		}
		if len(list) > 0 {
			return sameBatch(list, announced)
		}
		if err := checkQuota(q, orgID, announced, s.clock()); err != nil {
			return err
		}
		if err := insertArtifacts(q, orgID, jobID, batchID, announced, s.clock()); err != nil {
			return err
		}
		list, err = ofBatch(q, orgID, jobID, batchID)
		return err
	})
	return list, err
}

func sameBatch(was, announced []Artifact) error {
	if !slices.EqualFunc(was, announced, func(a, b Artifact) bool { return a.Path == b.Path && a.FileSize == b.FileSize }) {
		return core.Errorf(core.Unprocessable, "Another batch of artifacts has this id")
	}
	return nil
}

func insertArtifacts(q *db.Q, orgID, jobID, batchID string, list []Artifact, now time.Time) error {
	buildID, err := builds.BuildIDOf(q, orgID, jobID)
	if err != nil {
		return err
	}
	var had int
	if err := q.QueryRow(`SELECT COUNT(*) FROM artifacts WHERE job_id = $1`, jobID).Scan(&had); err != nil {
		return err
	}
	if all := had + len(list); all > maxPerJob {
		return core.Errorf(core.Unprocessable, "The job would have %d artifacts; %d are the most", all, maxPerJob)
	}
	return db.InsertMany(q, `
		INSERT INTO artifacts (id, organization_id, build_id, job_id, state, path, mime_type, file_size, sha1sum, sha256sum, location, upload_destination, batch_id, parts, created_at)`,
		list, func(a Artifact) []any {
			return []any{core.NewID(), orgID, buildID, jobID, StateNew, a.Path, a.MimeType, a.FileSize, a.SHA1, db.Text(a.SHA256), a.Location, db.Text(a.Destination), batchID, max(a.Parts, 1), db.Micros(now)}
		}, "")
}

// SetStates sets the states of a job's artifacts, by id. Deleted and expired ones stay as they are.
func (s *Service) SetStates(ctx context.Context, orgID, jobID string, states map[string]State) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		stored, err := setStates(q, orgID, jobID, states)
		if err != nil {
			return err
		}
		if err := usage.Add(q, orgID, usage.Artifacts, stored); err != nil {
			return err
		}
		buildID, err := builds.BuildIDOf(q, orgID, jobID)
		if core.KindOf(err) == core.NotFound {
			return nil
		}
		q.Announce(builds.Topic(buildID))
		return err
	})
}

// setStates sets the states of a job's artifacts and returns how much more is stored.
func setStates(q *db.Q, orgID, jobID string, states map[string]State) (stored usage.Stored, err error) {
	ids := slices.Sorted(maps.Keys(states))
	if len(ids) == 0 {
		return stored, nil
	}
	in, arg := q.In("a.id", 3, ids)
	list, err := db.All(q, scanArtifact, selectArtifact+` WHERE a.organization_id = $1 AND a.job_id = $2 AND `+in+` ORDER BY a.id`, orgID, jobID, arg)
	if err != nil {
		return stored, err
	}
	for _, a := range list {
		to := states[a.ID]
		// The state that was read is a condition, so that of two requests one counts.
		n, err := q.Exec(`UPDATE artifacts SET state = $2 WHERE id = $1 AND state = $3 AND state NOT IN ($4, $5)`, a.ID, to, a.State, StateDeleted, StateExpired)
		switch {
		case err != nil:
			return stored, err
		case n == 0 || !a.Kept() || to == a.State:
		case to == StateFinished:
			stored.Bytes, stored.Objects = stored.Bytes+a.FileSize, stored.Objects+1
		case a.State == StateFinished:
			stored.Bytes, stored.Objects = stored.Bytes-a.FileSize, stored.Objects-1
		}
	}
	return stored, nil
}

// remove deletes an artifact, and its bytes in the background.
func (s *Service) remove(ctx context.Context, a Artifact) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		finished, err := q.Exec(`UPDATE artifacts SET state = $2 WHERE id = $1 AND state = $3`, a.ID, StateDeleted, StateFinished)
		if err == nil && finished == 0 {
			_, err = q.Exec(`UPDATE artifacts SET state = $2 WHERE id = $1`, a.ID, StateDeleted)
		}
		if err != nil || !a.Kept() {
			return err
		}
		if err := pipelines.RemoveBytes(q, a.Prefix(), s.clock()); err != nil || finished == 0 {
			return err
		}
		return usage.Add(q, a.OrganizationID, usage.Artifacts, usage.Stored{Bytes: -a.FileSize, Objects: -1})
	})
}
