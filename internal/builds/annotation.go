package builds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
)

// An Annotation is a note, in Markdown, on a build or on one of its jobs.
type Annotation struct {
	ID        string
	BuildID   string
	JobID     string // empty: the whole build's
	Context   string // one annotation for each, of a build and of each job
	Style     Style  // empty: none
	Priority  int    // 1 to 10, high first
	Body      string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Style is how an annotation looks.
type Style string

// Values lists every style.
func (Style) Values() []string { return []string{"success", "info", "warning", "error"} }

const (
	defaultContext  = "default"
	defaultPriority = 3
	maxPriority     = 10
	maxContext      = 100     // characters
	maxAnnotation   = 1 << 20 // bytes
	noAnnotation    = "No annotation found"
)

// A Note is what is asked to become of an annotation. Style and Priority are nil where they are to stay
// as they are, or have their defaults.
type Note struct {
	Context  string // empty: default
	Body     *string
	Append   bool // to the body there is
	Style    *Style
	Priority *int
}

func (n Note) check() error {
	var wrong core.Problems
	checkLength(&wrong, "context", n.Context, maxContext)
	if n.Style != nil && *n.Style != "" && !slices.Contains(n.Style.Values(), string(*n.Style)) {
		wrong.Add("style", "must be one of %s", strings.Join(n.Style.Values(), ", "))
	}
	if n.Priority != nil && (*n.Priority < 1 || *n.Priority > maxPriority) {
		wrong.Add("priority", "must be an integer from 1 to %d", maxPriority)
	}
	return wrong.Err()
}

// Annotate makes the annotation of a context of a build or, unless jobID is empty, of a job; or changes
// the one there is.
func (s *Service) Annotate(ctx context.Context, orgID, buildID, jobID string, n Note) (Annotation, error) {
	if err := n.check(); err != nil {
		return Annotation{}, err
	}
	n.Context = cmp.Or(n.Context, defaultContext)
	var a Annotation
	err := s.db.Write(ctx, func(q *db.Q) (err error) {
		if err := q.LockName("annotations of " + buildID); err != nil {
			return err
		}
		a, err = oneAnnotation(q, annotationOf, orgID, buildID, jobID, n.Context)
		now := s.clock()
		if core.KindOf(err) == core.NotFound {
			if n.Body == nil {
				return core.Errorf(core.Unprocessable, "There is no annotation with the context %q to change; give it a body", n.Context)
			}
			a, err = Annotation{ID: core.NewID(), BuildID: buildID, JobID: jobID, Context: n.Context, Priority: defaultPriority, CreatedAt: now}, nil
		}
		if err != nil {
			return err
		}
		a.UpdatedAt = now
		if err := a.apply(n); err != nil {
			return err
		}
		q.Announce(Topic(buildID))
		return saveAnnotation(q, orgID, a)
	})
	return a, err
}

// annotationOf is the annotation of a context of a build, or of one of its jobs.
const annotationOf = `organization_id = $1 AND build_id = $2 AND COALESCE(job_id, '') = $3 AND context = $4`

func (a *Annotation) apply(n Note) error {
	switch {
	case n.Body == nil:
	case n.Append:
		a.Body += *n.Body
	default:
		a.Body = *n.Body
	}
	if n.Style != nil {
		a.Style = *n.Style
	}
	if n.Priority != nil {
		a.Priority = *n.Priority
	}
	var wrong core.Problems
	if len(a.Body) > maxAnnotation {
		wrong.Add("body", "must have at most %d bytes, not %d", maxAnnotation, len(a.Body))
	}
	return wrong.Err()
}

// RemoveAnnotation deletes the annotation of a context of a build or, unless jobID is empty, of a job, if
// there is one.
func (s *Service) RemoveAnnotation(ctx context.Context, orgID, buildID, jobID, context string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		q.Announce(Topic(buildID))
		_, err := q.Exec(`DELETE FROM annotations WHERE `+annotationOf, orgID, buildID, jobID, cmp.Or(context, defaultContext))
		return err
	})
}

// removeAnnotation deletes an annotation of a build by its id, or says NotFound.
func (s *Service) removeAnnotation(ctx context.Context, b *Build, id string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		n, err := q.Exec(`DELETE FROM annotations WHERE build_id = $1 AND id = $2`, b.ID, id)
		if err == nil && n == 0 {
			err = core.Errorf(core.NotFound, noAnnotation)
		}
		q.Announce(Topic(b.ID))
		return err
	})
}

// A ShownAnnotation is an annotation as people see it.
type ShownAnnotation struct {
	Annotation
	HTML string // of the body, safe to show
}

// Annotations returns the first annotations of a build and its jobs, and how many there are. Links in them
// to artifacts lead to their addresses.
func (s *Service) Annotations(ctx context.Context, b *Build, most int, address func(Artifact) string) (shown []ShownAnnotation, total int, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		var where db.Statement
		where.Where("build_id = %s", b.ID)
		var list []Annotation
		if list, total, err = listAnnotations(q, &where, most, 0); err != nil {
			return err
		}
		bodies, err := bodies(q, b.ID, list, address)
		shown = make([]ShownAnnotation, len(bodies))
		for i, body := range bodies {
			shown[i] = ShownAnnotation{list[i], body}
		}
		return err
	})
	return shown, total, err
}

// AnnotationsVersion returns what changes whenever an annotation of a build does. It costs much less than
// the annotations.
func (s *Service) AnnotationsVersion(ctx context.Context, b *Build) (version string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		var count, updated int64
		err := q.QueryRow(`SELECT COUNT(*), CAST(COALESCE(SUM(updated_at - $2), 0) AS BIGINT) FROM annotations WHERE build_id = $1`, b.ID, db.Micros(b.CreatedAt)).Scan(&count, &updated)
		version = fmt.Sprint(count, updated)
		return err
	})
	return version, err
}

const selectAnnotation = `
	SELECT id, build_id, job_id, context, COALESCE(style, ''), priority, body, created_at, updated_at
	FROM annotations`

func scanAnnotation(scan db.Scan) (a Annotation, err error) {
	return a, scan(&a.ID, &a.BuildID, db.ToText(&a.JobID), &a.Context, &a.Style, &a.Priority, &a.Body, db.ToTime(&a.CreatedAt), db.ToTime(&a.UpdatedAt))
}

func oneAnnotation(q *db.Q, where string, args ...any) (Annotation, error) {
	a, err := db.One(q, scanAnnotation, selectAnnotation+` WHERE `+where, args...)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noAnnotation)
	}
	return a, err
}

// listAnnotations returns one page of the annotations that a statement allows, those with a high priority
// first, and how many there are.
func listAnnotations(q *db.Q, s *db.Statement, limit, offset int) ([]Annotation, int, error) {
	var total int
	if err := q.QueryRow(`SELECT COUNT(*) FROM annotations `+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, 0, err
	}
	list, err := db.All(q, scanAnnotation, selectAnnotation+`
	`+s.Clause()+`
	ORDER BY priority DESC, created_at, id
	LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return list, total, err
}

func saveAnnotation(q *db.Q, orgID string, a Annotation) error {
	_, err := q.Exec(`
		INSERT INTO annotations (id, organization_id, build_id, job_id, context, style, priority, body, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (id) DO UPDATE SET
			style      = excluded.style,
			priority   = excluded.priority,
			body       = excluded.body,
			updated_at = excluded.updated_at`,
		a.ID, orgID, a.BuildID, db.Text(a.JobID), a.Context, db.Text(string(a.Style)), a.Priority, a.Body, db.Micros(a.CreatedAt), db.Micros(a.UpdatedAt))
	return err
}
