package artifacts

import (
	"context"
	"errors"
	"slices"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const selectArtifact = `
	SELECT a.id, a.organization_id, b.pipeline_id, a.build_id, a.job_id, a.state, a.path, a.mime_type, a.file_size, a.sha1sum, a.sha256sum,
		a.upload_destination, a.location, a.parts, a.created_at
	FROM artifacts a
	JOIN builds b ON b.id = a.build_id`

func scanArtifact(scan db.Scan) (a Artifact, err error) {
	return a, scan(&a.ID, &a.OrganizationID, &a.PipelineID, &a.BuildID, &a.JobID, &a.State, &a.Path, &a.MimeType, &a.FileSize, &a.SHA1, db.ToText(&a.SHA256),
		db.ToText(&a.Destination), &a.Location, &a.Parts, db.ToTime(&a.CreatedAt))
}

// byID returns an artifact of a job that is not deleted, or a NotFound error.
func byID(q *db.Q, jobID, id string) (Artifact, error) {
	return one(q, `a.job_id = $1 AND a.id = $2 AND a.state <> $3`, jobID, id, StateDeleted)
}

func one(q *db.Q, where string, args ...any) (Artifact, error) {
	a, err := db.One(q, scanArtifact, selectArtifact+` WHERE `+where, args...)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noArtifact)
	}
	return a, err
}

// Get returns an artifact that is not deleted, or a NotFound error. The caller has checked access.
func (s *Service) Get(ctx context.Context, id string) (a Artifact, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		a, err = one(q, `a.id = $1 AND a.state <> $2`, id, StateDeleted)
		return err
	})
	return a, err
}

// OfJob returns the artifacts of a job that have one of the ids and are not deleted.
func (s *Service) OfJob(ctx context.Context, orgID, jobID string, ids []string) (list []Artifact, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		in, arg := q.In("a.id", 4, ids)
		list, err = db.All(q, scanArtifact, selectArtifact+`
		WHERE a.organization_id = $1 AND a.job_id = $2 AND a.state <> $3 AND `+in, orgID, jobID, StateDeleted, arg)
		return err
	})
	return list, err
}

// OfBatch returns the artifact of a batch that has a path, or a NotFound error.
func (s *Service) OfBatch(ctx context.Context, jobID, batchID, path string) (a Artifact, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		a, err = one(q, `a.job_id = $1 AND a.batch_id = $2 AND a.path = $3 AND a.state <> $4`, jobID, batchID, path, StateDeleted)
		return err
	})
	return a, err
}

// ofBatch returns the artifacts of a batch, in the order in which they were announced.
func ofBatch(q *db.Q, orgID, jobID, batchID string) ([]Artifact, error) {
	return db.All(q, scanArtifact, selectArtifact+`
	WHERE a.organization_id = $1 AND a.job_id = $2 AND a.batch_id = $3
	ORDER BY a.id`, orgID, jobID, batchID)
}

// ByPath returns the newest finished artifact of a build for each of the paths that has one.
func ByPath(q *db.Q, buildID string, paths []string) (map[string]Artifact, error) {
	in, arg := q.In("a.path", 2, paths)
	list, err := db.All(q, scanArtifact, selectArtifact+` WHERE a.build_id = $1 AND `+in+` AND a.state = $3 ORDER BY a.id`, buildID, arg, StateFinished)
	byPath := make(map[string]Artifact, len(list))
	for _, a := range list {
		byPath[a.Path] = a
	}
	return byPath, err
}

// Named returns the finished artifact of a build with a path: of a job if that has one, and otherwise the newest.
func (s *Service) Named(ctx context.Context, buildID, jobID, path string) (a Artifact, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		a, err = one(q, `a.build_id = $1 AND a.path = $2 AND a.state = $3 ORDER BY CASE WHEN a.job_id = $4 THEN 0 ELSE 1 END, a.id DESC LIMIT 1`, buildID, path, StateFinished, jobID)
		return err
	})
	return a, err
}

// list returns one page of the artifacts that a statement selects, oldest first, and the total.
func list(q *db.Q, s *db.Statement, limit, offset int) ([]Artifact, int, error) {
	var total int
	if err := q.QueryRow(`SELECT COUNT(*) FROM artifacts a `+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, 0, err
	}
	page, err := db.All(q, scanArtifact, selectArtifact+`
	`+s.Clause()+`
	ORDER BY a.id
	LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return page, total, err
}

// OfBuild returns the first artifacts of a build, and the total.
func (s *Service) OfBuild(ctx context.Context, b *builds.Build, limit int) (first []Artifact, total int, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		var where db.Statement
		where.Where("a.build_id = %s", b.ID)
		if err := (filter{}).restrict(&where); err != nil {
			return err
		}
		first, total, err = list(q, &where, limit, 0)
		return err
	})
	return first, total, err
}

// OfOneJob returns the first artifacts of a job, and the total.
func (s *Service) OfOneJob(ctx context.Context, j *builds.Job, limit int) (first []Artifact, total int, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		var where db.Statement
		where.Where("a.job_id = %s", j.ID)
		if err := (filter{}).restrict(&where); err != nil {
			return err
		}
		first, total, err = list(q, &where, limit, 0)
		return err
	})
	return first, total, err
}

// A filter selects artifacts.
type filter struct{ state, path string }

// restrict limits a statement to the artifacts a that match the filter. Deleted ones never do.
func (f filter) restrict(s *db.Statement) error {
	s.Where("a.state <> %s", StateDeleted)
	if f.state != "" {
		if !slices.Contains(State("").Values(), f.state) {
			return core.Errorf(core.Unprocessable, "%q is not a state of an artifact; they are %s", f.state, strings.Join(State("").Values(), ", "))
		}
		s.Where("a.state = %s", f.state)
	}
	like := func(pattern string) string { return strings.ReplaceAll(db.Like(pattern), "*", "%") }
	switch {
	case strings.Contains(f.path, "**/"):
		// Any number of folders, including none: the pattern log/**/* finds what it uploaded.
		s.Where(`(a.path LIKE %s ESCAPE '\' OR a.path LIKE %s ESCAPE '\')`, like(f.path), like(strings.ReplaceAll(f.path, "**/", "")))
	case strings.Contains(f.path, "*"):
		s.Where(`a.path LIKE %s ESCAPE '\'`, like(f.path))
	case f.path != "":
		s.Where("a.path = %s", f.path)
	}
	return nil
}

// A Search selects artifacts of a build.
type Search struct {
	Query   string // a path in which * matches anything, slashes included, and **/ any number of folders; empty: any
	Scope   string // the key or label of a step, or the id of a job; empty: the whole build
	State   string // empty: any
	Retried bool   // whether to include artifacts of retried attempts
	// Duplicates selects all artifacts of a path, not only the newest.
	Duplicates bool
}

// maxFound bounds what a search returns.
const maxFound = 20_000

// Find returns artifacts of a build, newest first.
func (s *Service) Find(ctx context.Context, orgID, buildID string, search Search) (found []Artifact, err error) {
	var where db.Statement
	where.Where("a.organization_id = %s AND a.build_id = %s", orgID, buildID)
	if err := (filter{strings.ToLower(search.State), search.Query}).restrict(&where); err != nil {
		return nil, err
	}
	if !search.Retried {
		where.And("NOT j.retried")
	}
	if search.Scope != "" {
		where.Where("(j.id = %s OR s.key = %s OR d.label = %s)", search.Scope, search.Scope, search.Scope)
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		found, err = db.All(q, scanArtifact, selectArtifact+`
		JOIN jobs j ON j.id = a.job_id
		JOIN steps s ON s.id = j.step_id
		JOIN step_details d ON d.step_id = s.id
		`+where.Clause()+`
		ORDER BY a.id DESC
		LIMIT `+where.Arg(maxFound+1), where.Args()...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(found) > maxFound {
		return nil, core.Errorf(core.Unprocessable, "More than %d artifacts match; narrow the search, for example to one step", maxFound)
	}
	if !search.Duplicates {
		found = newestOfEachPath(found)
	}
	return found, nil
}

func newestOfEachPath(newestFirst []Artifact) []Artifact {
	seen := make(map[string]bool, len(newestFirst))
	return slices.DeleteFunc(newestFirst, func(a Artifact) bool {
		again := seen[a.Path]
		seen[a.Path] = true
		return again
	})
}
