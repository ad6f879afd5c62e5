// Package annotations keeps the Markdown texts that jobs and people attach to builds and jobs.
//
// Markdown is rendered to safe HTML when it is written, never when it is read. Links to artifacts are stored in a
// scheme of their own and replaced by URLs when annotations are shown (links.go).
package annotations

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/markdown"
	"stackyard/internal/platform/tasks"
)

// Service stores and renders annotations.
type Service struct {
	db     *db.DB
	builds *builds.Reader
	clock  core.Clock
}

// New returns the service of the annotations in a database.
func New(d *db.DB, b *builds.Reader, clock core.Clock) *Service {
	return &Service{db: d, builds: b, clock: clock}
}

// Background registers the task that renders appended text.
func (s *Service) Background(r *tasks.Runner) {
	r.Handle(renderTask, tasks.Limits{Timeout: time.Minute}, s.renderPending)
}

// An Annotation is a Markdown text on a build or on one of its jobs.
type Annotation struct {
	ID        string
	BuildID   string
	JobID     string // empty: it belongs to the whole build
	Context   string // unique within the build, or within the job
	Style     Style  // empty: none
	Priority  int    // 1 to 10, high first
	CreatedAt time.Time
	UpdatedAt time.Time

	// written counts all bytes ever written to the body. rendered is the value of written when the stored HTML was
	// rendered. They differ by the bytes appended since then.
	written, rendered int64
	size              int // of the HTML in bytes
}

// Style is the visual style of an annotation.
type Style string

// Values lists every style.
func (Style) Values() []string { return []string{"success", "info", "warning", "error"} }

const (
	defaultContext  = "default"
	defaultPriority = 3
	maxPriority     = 10
	maxContext      = 100     // characters
	maxBody         = 1 << 20 // bytes
	noAnnotation    = "No annotation found"

	// A body of up to eagerBody bytes is rendered on every append. A larger body is rendered when the bytes appended
	// since the last rendering are at least 1/eagerShare of it, otherwise by a task after renderDelay. So rendering
	// costs a small multiple of rendering the body once, however often text is appended.
	eagerBody   = 16 << 10
	eagerShare  = 4
	renderDelay = 5 * time.Second
	renderTask  = "annotation-render"
)

// A Change creates or changes an annotation. Where Style or Priority is nil, the annotation keeps its value, or
// gets the default.
type Change struct {
	Context  string // empty: default
	Body     *string
	Append   bool // append Body to the existing body instead of replacing it
	Style    *Style
	Priority *int
}

func (c Change) check() error {
	var wrong core.Problems
	if n := utf8.RuneCountInString(c.Context); n > maxContext {
		wrong.Add("context", "must have at most %d characters, not %d", maxContext, n)
	}
	if c.Style != nil && *c.Style != "" && !slices.Contains(c.Style.Values(), string(*c.Style)) {
		wrong.Add("style", "must be one of %s", strings.Join(c.Style.Values(), ", "))
	}
	if c.Priority != nil && (*c.Priority < 1 || *c.Priority > maxPriority) {
		wrong.Add("priority", "must be an integer from 1 to %d", maxPriority)
	}
	return wrong.Err()
}

// Annotate creates or changes the annotation with a context, of a build or, unless jobID is empty, of one of its
// jobs. It renders the Markdown outside of transactions.
func (s *Service) Annotate(ctx context.Context, orgID, buildID, jobID string, c Change) (Annotation, error) {
	if err := c.check(); err != nil {
		return Annotation{}, err
	}
	c.Context = cmp.Or(c.Context, defaultContext)
	var html *string
	if c.Body != nil && !c.Append {
		if err := checkBody(*c.Body); err != nil {
			return Annotation{}, err
		}
		rendered, err := markdown.Render(ctx, *c.Body)
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
		a, body, err = withBody(q, ofContext, orgID, buildID, jobID, c.Context)
		now := s.clock()
		if core.KindOf(err) == core.NotFound {
			if c.Body == nil {
				return core.Errorf(core.Unprocessable, "There is no annotation with the context %q to change; give it a body", c.Context)
			}
			a, err = Annotation{ID: core.NewID(), BuildID: buildID, JobID: jobID, Context: c.Context, Priority: defaultPriority, CreatedAt: now}, nil
		}
		if err != nil {
			return err
		}
		a.UpdatedAt = now
		body = a.apply(c, body)
		if err := checkBody(body); err != nil {
			return err
		}
		if a.rendered < a.written {
			if err := tasks.Add(q, tasks.Task{Kind: renderTask, Key: a.ID, RunAt: now.Add(renderDelay)}); err != nil {
				return err
			}
		}
		q.Announce(builds.Topic(buildID))
		return save(q, orgID, a, body, html)
	})
	pending := a.written - a.rendered
	if err != nil || pending == 0 || len(body) > eagerBody && pending < int64(len(body)/eagerShare) {
		return a, err
	}
	return a, s.render(ctx, a, body)
}

// ofContext selects the annotation with a context, of a build or of one of its jobs.
const ofContext = `organization_id = $1 AND build_id = $2 AND COALESCE(job_id, '') = $3 AND context = $4`

// apply changes the annotation and returns its new body, given the old one.
func (a *Annotation) apply(c Change, body string) string {
	switch {
	case c.Body == nil:
	case c.Append:
		body += *c.Body
		a.written += int64(len(*c.Body))
	default:
		body = *c.Body
		a.written += int64(len(body)) + 1
		a.rendered = a.written
	}
	if c.Style != nil {
		a.Style = *c.Style
	}
	if c.Priority != nil {
		a.Priority = *c.Priority
	}
	return body
}

func checkBody(body string) error {
	var wrong core.Problems
	if len(body) > maxBody {
		wrong.Add("body", "must have at most %d bytes, not %d", maxBody, len(body))
	}
	return wrong.Err()
}

// render renders a body of an annotation and stores the HTML, unless the HTML of a later body is stored already.
func (s *Service) render(ctx context.Context, a Annotation, body string) error {
	html, err := markdown.Render(ctx, body)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		q.Announce(builds.Topic(a.BuildID))
		_, err := q.Exec(`UPDATE annotations SET html = $2, rendered = $3 WHERE id = $1 AND rendered < $3`, a.ID, html, a.written)
		return err
	})
}

// renderPending renders an annotation if text was appended since the last rendering. The task's key is its id.
func (s *Service) renderPending(ctx context.Context, t *tasks.Due) error {
	var a Annotation
	var body string
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		a, body, err = withBody(q, `id = $1`, t.Key)
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil || a.rendered == a.written {
		return err
	}
	return s.render(ctx, a, body)
}

// Remove deletes the annotation with a context, of a build or, unless jobID is empty, of one of its jobs, if there
// is one.
func (s *Service) Remove(ctx context.Context, orgID, buildID, jobID, context string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		q.Announce(builds.Topic(buildID))
		_, err := q.Exec(`DELETE FROM annotations WHERE `+ofContext, orgID, buildID, jobID, cmp.Or(context, defaultContext))
		return err
	})
}

// removeByID deletes an annotation of a build, or returns a NotFound error.
func (s *Service) removeByID(ctx context.Context, b *builds.Build, id string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		n, err := q.Exec(`DELETE FROM annotations WHERE build_id = $1 AND id = $2`, b.ID, id)
		if err == nil && n == 0 {
			err = core.Errorf(core.NotFound, noAnnotation)
		}
		q.Announce(builds.Topic(b.ID))
		return err
	})
}

// Rendered is an annotation with its HTML.
type Rendered struct {
	Annotation
	HTML string // safe to embed in a page
}

// OfBuild returns the first annotations of a build and its jobs, at most limit and maxBytes of HTML, and the total.
// Links to artifacts are replaced by the URLs that address returns.
func (s *Service) OfBuild(ctx context.Context, b *builds.Build, limit, maxBytes int, address func(artifacts.Artifact) string) (first []Rendered, total int, err error) {
	var where db.Statement
	where.Where("build_id = %s", b.ID)
	var page []Annotation
	var html []string
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		if page, total, err = list(q, &where, limit, 0); err == nil {
			html, err = htmlOf(q, page, maxBytes)
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
		first = append(first, Rendered{page[i], html[i]})
	}
	return first, total, nil
}

// Version returns a text that changes whenever an annotation of the build does. It costs much less than reading the
// annotations.
func (s *Service) Version(ctx context.Context, b *builds.Build) (version string, err error) {
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

func one(q *db.Q, where string, args ...any) (Annotation, error) {
	return db.Find(q, noAnnotation, scanAnnotation, selectAnnotation+` WHERE `+where, args...)
}

// withBody returns an annotation with its body.
func withBody(q *db.Q, where string, args ...any) (a Annotation, body string, err error) {
	if a, err = one(q, where, args...); err == nil {
		err = q.QueryRow(`SELECT body FROM annotations WHERE id = $1`, a.ID).Scan(&body)
	}
	return a, body, err
}

// list returns one page of the annotations that a statement selects, highest priority first, and the total.
func list(q *db.Q, s *db.Statement, limit, offset int) ([]Annotation, int, error) {
	var total int
	if err := q.QueryRow(`SELECT COUNT(*) FROM annotations `+s.Clause(), s.Args()...).Scan(&total); err != nil {
		return nil, 0, err
	}
	page, err := db.All(q, scanAnnotation, selectAnnotation+`
	`+s.Clause()+`
	ORDER BY priority DESC, created_at, id
	LIMIT `+s.Arg(limit)+` OFFSET `+s.Arg(offset), s.Args()...)
	return page, total, err
}

// htmlOf returns the HTML of the first annotations of a page, at most maxBytes in all.
func htmlOf(q *db.Q, page []Annotation, maxBytes int) ([]string, error) {
	var ids []string
	for _, a := range page {
		if maxBytes -= a.size; maxBytes < 0 {
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

// save writes an annotation. The stored HTML stays if html is nil.
func save(q *db.Q, orgID string, a Annotation, body string, html *string) error {
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

// RemoveSome removes at most limit annotations of a build, and returns how many.
func RemoveSome(q *db.Q, buildID string, limit int) (int64, error) {
	return q.DeleteSome(limit, "annotations", `build_id = $1`, buildID)
}
