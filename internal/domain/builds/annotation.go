package builds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/platform/tasks"
)

// An Annotation is a note, in Markdown, on a build or on one of its jobs.
type Annotation struct {
	ID        string
	BuildID   string
	JobID     string // empty: the whole build's
	Context   string // one annotation for each, of a build and of each job
	Style     Style  // empty: none
	Priority  int    // 1 to 10, high first
	CreatedAt time.Time
	UpdatedAt time.Time

	// written counts the bytes that were ever written to the body, and rendered is what it was when the
	// stored HTML was rendered. They differ only by what was appended since then.
	written, rendered int64
	size              int // of the HTML, in bytes
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

	// A body of up to eagerBody bytes is rendered whenever something is appended. A larger one is rendered
	// when what was appended since the last time is a share of it, else by a task renderDelay later: so
	// however often something is appended, rendering costs a few times as much as rendering the body once.
	eagerBody   = 16 << 10
	eagerShare  = 4
	renderDelay = 5 * time.Second
	renderTask  = "annotation-render"
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
// the one there is. Markdown is rendered here, once, outside transactions.
func (s *Service) Annotate(ctx context.Context, orgID, buildID, jobID string, n Note) (Annotation, error) {
	if err := n.check(); err != nil {
		return Annotation{}, err
	}
	n.Context = cmp.Or(n.Context, defaultContext)
	var html *string
	if n.Body != nil && !n.Append {
		if err := checkBody(*n.Body); err != nil {
			return Annotation{}, err
		}
		rendered, err := markdown.Render(ctx, *n.Body)
		if err != nil {
			return Annotation{}, err
		}
		html = &rendered
	}
	var a Annotation
	var body string
	err := s.db.Write(ctx, func(q *db.Q) (err error) {
		if err := q.LockName("annotations of " + buildID); err != nil {
			return err
		}
		a, body, err = bodyOf(q, annotationOf, orgID, buildID, jobID, n.Context)
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
		body = a.apply(n, body)
		if err := checkBody(body); err != nil {
			return err
		}
		if a.rendered < a.written {
			if err := tasks.Add(q, tasks.Task{Kind: renderTask, Key: a.ID, RunAt: now.Add(renderDelay)}); err != nil {
				return err
			}
		}
		q.Announce(Topic(buildID))
		return saveAnnotation(q, orgID, a, body, html)
	})
	pending := a.written - a.rendered
	if err != nil || pending == 0 || len(body) > eagerBody && pending < int64(len(body)/eagerShare) {
		return a, err
	}
	return a, s.renderAnnotation(ctx, a, body)
}

// annotationOf is the annotation of a context of a build, or of one of its jobs.
const annotationOf = `organization_id = $1 AND build_id = $2 AND COALESCE(job_id, '') = $3 AND context = $4`

// apply changes an annotation and returns its body, of which it is given the one there is.
func (a *Annotation) apply(n Note, body string) string {
	switch {
	case n.Body == nil:
	case n.Append:
		body += *n.Body
		a.written += int64(len(*n.Body))
	default:
		body = *n.Body
		a.written += int64(len(body)) + 1
		a.rendered = a.written
	}
	if n.Style != nil {
		a.Style = *n.Style
	}
	if n.Priority != nil {
		a.Priority = *n.Priority
	}
	return body
}

func checkBody(body string) error {
	var wrong core.Problems
	if len(body) > maxAnnotation {
		wrong.Add("body", "must have at most %d bytes, not %d", maxAnnotation, len(body))
	}
	return wrong.Err()
}

// renderAnnotation renders a body of an annotation and stores the HTML, unless that of a later one is stored.
func (s *Service) renderAnnotation(ctx context.Context, a Annotation, body string) error {
	html, err := markdown.Render(ctx, body)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		q.Announce(Topic(a.BuildID))
		_, err := q.Exec(`UPDATE annotations SET html = $2, rendered = $3 WHERE id = $1 AND rendered < $3`, a.ID, html, a.written)
		return err
	})
}

// renderPending renders what was appended to an annotation and is not rendered yet.
func (s *Service) renderPending(ctx context.Context, t *tasks.Due) error {
	var a Annotation
	var body string
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		a, body, err = bodyOf(q, `id = $1`, t.Key)
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil || a.rendered == a.written {
		return err
	}
	return s.renderAnnotation(ctx, a, body)
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

// Annotations returns the first annotations of a build and its jobs, as many as have at most some bytes of
// HTML, and how many there are. Links in them to artifacts lead to their addresses.
func (s *Service) Annotations(ctx context.Context, b *Build, most, bytes int, address func(Artifact) string) (shown []ShownAnnotation, total int, err error) {
	var where db.Statement
	where.Where("build_id = %s", b.ID)
	var list []Annotation
	var html []string
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		if list, total, err = listAnnotations(q, &where, most, 0); err == nil {
			html, err = htmlOf(q, list, bytes)
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if html, err = s.linkArtifacts(ctx, b.ID, html, address); err != nil {
		return nil, 0, err
	}
	for i := range html {
		shown = append(shown, ShownAnnotation{list[i], html[i]})
	}
	return shown, total, nil
}

// AnnotationsVersion returns what changes whenever an annotation of a build does. It costs much less than
// the annotations.
func (s *Service) AnnotationsVersion(ctx context.Context, b *Build) (version string, err error) {
	err = s.db.Read(ctx, func(q *db.Q) error {
		var count, updated int64
		err := q.QueryRow(`SELECT COUNT(*), CAST(COALESCE(SUM(updated_at - $2 + rendered), 0) AS BIGINT) FROM annotations WHERE build_id = $1`, b.ID, db.Micros(b.CreatedAt)).Scan(&count, &updated)
		version = fmt.Sprint(count, updated)
		return err
	})
	return version, err
}

const selectAnnotation = `
	SELECT id, build_id, job_id, context, COALESCE(style, ''), priority, created_at, updated_at, written, rendered, COALESCE(OCTET_LENGTH(html), 0)
	FROM annotations`

func scanAnnotation(scan db.Scan) (a Annotation, err error) {
	return a, scan(&a.ID, &a.BuildID, db.ToText(&a.JobID), &a.Context, &a.Style, &a.Priority, db.ToTime(&a.CreatedAt), db.ToTime(&a.UpdatedAt), &a.written, &a.rendered, &a.size)
}

func oneAnnotation(q *db.Q, where string, args ...any) (Annotation, error) {
	a, err := db.One(q, scanAnnotation, selectAnnotation+` WHERE `+where, args...)
	if errors.Is(err, db.ErrNoRows) {
		err = core.Errorf(core.NotFound, noAnnotation)
	}
	return a, err
}

// bodyOf returns an annotation with its body.
func bodyOf(q *db.Q, where string, args ...any) (a Annotation, body string, err error) {
	if a, err = oneAnnotation(q, where, args...); err == nil {
		err = q.QueryRow(`SELECT body FROM annotations WHERE id = $1`, a.ID).Scan(&body)
	}
	return a, body, err
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

// htmlOf returns the HTML of the first of a list of annotations, of as many as have at most some bytes.
func htmlOf(q *db.Q, list []Annotation, most int) ([]string, error) {
	var ids []string
	for _, a := range list {
		if most -= a.size; most < 0 {
			break
		}
		ids = append(ids, a.ID)
	}
	in, arg := q.In("id", 1, ids)
	rows, err := db.All(q, func(scan db.Scan) (row [2]string, err error) { return row, scan(&row[0], &row[1]) },
		`SELECT id, COALESCE(html, '') FROM annotations WHERE `+in, arg)
	byID := make(map[string]string, len(rows))
	for _, row := range rows {
		byID[row[0]] = row[1]
	}
	html := make([]string, len(ids))
	for i, id := range ids {
		html[i] = byID[id]
	}
	return html, err
}

// saveAnnotation saves an annotation, with its HTML unless that stays as it is.
func saveAnnotation(q *db.Q, orgID string, a Annotation, body string, html *string) error {
	_, err := q.Exec(`
		INSERT INTO annotations (id, organization_id, build_id, job_id, context, style, priority, body, html, written, rendered, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (id) DO UPDATE SET
			style      = excluded.style,
			priority   = excluded.priority,
			body       = excluded.body,
			html       = COALESCE(excluded.html, annotations.html),
			written    = excluded.written,
			rendered   = excluded.rendered,
			updated_at = excluded.updated_at`,
		a.ID, orgID, a.BuildID, db.Text(a.JobID), a.Context, db.Text(string(a.Style)), a.Priority, body, html, a.written, a.rendered, db.Micros(a.CreatedAt), db.Micros(a.UpdatedAt))
	return err
}
