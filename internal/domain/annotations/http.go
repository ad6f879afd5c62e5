package annotations

import (
	"net/http"
	"strings"

	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

type annotationView struct {
	ID        string          `json:"id"`
	Context   string          `json:"context"`
	Style     *Style          `json:"style"`
	Scope     annotationScope `json:"scope"`
	JobID     *string         `json:"job_id"`
	Priority  int             `json:"priority" doc:"1 to 10, the highest first."`
	BodyHTML  *string         `json:"body_html,omitempty" doc:"Left out with omit_body, and on a page whose bodies have more than 16 MiB for those beyond. What was just appended to a body of more than 16 KiB may appear a few seconds later."`
	CreatedAt core.Time       `json:"created_at"`
	UpdatedAt core.Time       `json:"updated_at"`
}

// annotationScope selects annotations of builds, of jobs, or both.
type annotationScope string

const (
	scopeBuild annotationScope = "build"
	scopeJob   annotationScope = "job"
	scopeAll   annotationScope = "all"
)

// Routes returns the routes of annotations.
func (s *Service) Routes() []route.Route {
	params := append([]route.Param{
		{Name: "scope", Doc: "What the annotations are about: build, job, or all for both; build unless given."},
		{Name: "omit_body", Type: "boolean", Doc: "Whether to leave out the bodies."},
	}, route.PageParams...)
	const all, one = builds.BuildPath + "/annotations", builds.BuildPath + "/annotations/{annotation}"
	routes := []route.Route{
		{Method: http.MethodGet, Path: all, Summary: "List the annotations of a build", Query: params, Handler: route.On(s.builds.LoadOnBuild, s.getAll)},
		{
			Method: http.MethodPost, Path: all, Summary: "Annotate a build",
			Description: "There is one annotation for each context: annotating again replaces it, or with append adds to it.",
			Status:      http.StatusCreated, Handler: route.OnBody(s.builds.LoadOnBuild, s.post),
		},
		{Method: http.MethodDelete, Path: one, Summary: "Delete an annotation of a build", Status: http.StatusNoContent, Handler: route.On(s.builds.LoadOnBuild, s.delete)},
	}
	for _, path := range builds.JobPaths {
		all, one := path+"/annotations", path+"/annotations/{annotation}"
		routes = append(routes,
			route.Route{Method: http.MethodGet, Path: all, Summary: "List the annotations of a job", Query: params[1:], Handler: route.On(s.builds.LoadOnJob, s.getAllOfJob)},
			route.Route{Method: http.MethodPost, Path: all, Summary: "Annotate a job", Status: http.StatusCreated, Handler: route.OnBody(s.builds.LoadOnJob, s.postOnJob)},
			route.Route{Method: http.MethodDelete, Path: one, Summary: "Delete an annotation of a job", Status: http.StatusNoContent, Handler: route.On(s.builds.LoadOnJob, s.deleteOfJob)},
		)
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope, r.Permission = "Annotations", identity.WriteBuilds, identity.BuildPipeline
		if r.Method == http.MethodGet {
			r.Scope, r.Permission, r.Visitors = identity.ReadBuilds, identity.ReadPipeline, true
		}
	}
	return routes
}

func (s *Service) getAll(r *route.Request, o builds.OnBuild) (route.Paged[annotationView], error) {
	scope := annotationScope(strings.ToLower(r.FormQuery("scope")))
	var where db.Statement
	where.Where("build_id = %s", o.Build.ID)
	switch scope {
	case "", scopeBuild:
		where.And("job_id IS NULL")
	case scopeJob:
		where.And("job_id IS NOT NULL")
	case scopeAll:
	default:
		return route.Paged[annotationView]{}, core.Errorf(core.BadRequest, "scope must be build, job or all")
	}
	return s.page(r, o, &where)
}

func (s *Service) getAllOfJob(r *route.Request, o builds.OnJob) (route.Paged[annotationView], error) {
	var where db.Statement
	where.Where("build_id = %s AND job_id = %s", o.Build.ID, o.ID)
	return s.page(r, builds.OnBuild{Build: o.Build, Pipeline: o.Pipeline}, &where)
}

func (s *Service) page(r *route.Request, o builds.OnBuild, where *db.Statement) (route.Paged[annotationView], error) {
	none := route.Paged[annotationView]{}
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	bare, err := r.Flag("omit_body", false)
	if err != nil {
		return none, err
	}
	var found []Annotation
	var total int
	var html []string
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		if found, total, err = list(q, where, page.Size, page.Offset()); err != nil || bare {
			return err
		}
		html, err = htmlOf(q, found, maxListed)
		return err
	})
	if err != nil {
		return none, err
	}
	if html, err = s.apiLinks(r, o, html); err != nil {
		return none, err
	}
	views := make([]annotationView, len(found))
	for i, a := range found {
		views[i] = a.view()
		if i < len(html) {
			views[i].BodyHTML = &html[i]
		}
	}
	return route.PageOf(views, page, total), nil
}

// maxListed bounds the HTML of one page of annotations, in bytes.
const maxListed = 16 << 20

// apiLinks replaces links to artifacts by their API URLs.
func (s *Service) apiLinks(r *route.Request, o builds.OnBuild, html []string) ([]string, error) {
	return s.linkArtifacts(r.Context(), o.ID, html, func(a artifacts.Artifact) string {
		return s.builds.Address(r.Org, o.Pipeline, o.Number).API("jobs", a.JobID, "artifacts", a.ID, "download")
	})
}

func (a Annotation) view() annotationView {
	v := annotationView{
		ID:        a.ID,
		Context:   a.Context,
		Scope:     scopeBuild,
		JobID:     core.OrNull(a.JobID),
		Priority:  a.Priority,
		CreatedAt: core.At(a.CreatedAt),
		UpdatedAt: core.At(a.UpdatedAt),
	}
	if a.JobID != "" {
		v.Scope = scopeJob
	}
	if a.Style != "" {
		v.Style = &a.Style
	}
	return v
}

type annotationCreate struct {
	Body     string           `json:"body" doc:"Markdown, with HTML in it if wanted."`
	Context  string           `json:"context" doc:"Identifies the annotation within its scope; default unless given."`
	Style    route.Opt[Style] `json:"style"`
	Priority route.Opt[int]   `json:"priority" doc:"1 to 10, the highest first. Defaults to 3."`
	Append   bool             `json:"append" doc:"Whether to append to the body instead of replacing it."`
}

func (c annotationCreate) change() (Change, error) {
	var wrong core.Problems
	if c.Body == "" {
		wrong.Add("body", "is required")
	}
	change := Change{Context: c.Context, Body: &c.Body, Append: c.Append}
	if c.Style.Set && !c.Style.Null {
		change.Style = &c.Style.Value
	}
	if c.Priority.Set && !c.Priority.Null {
		change.Priority = &c.Priority.Value
	}
	return change, wrong.Err()
}

func (s *Service) post(r *route.Request, o builds.OnBuild, body annotationCreate) (annotationView, error) {
	return s.annotate(r, o, "", body)
}

func (s *Service) postOnJob(r *route.Request, o builds.OnJob, body annotationCreate) (annotationView, error) {
	return s.annotate(r, builds.OnBuild{Build: o.Build, Pipeline: o.Pipeline}, o.ID, body)
}

func (s *Service) annotate(r *route.Request, o builds.OnBuild, jobID string, body annotationCreate) (annotationView, error) {
	change, err := body.change()
	if err != nil {
		return annotationView{}, err
	}
	a, err := s.Annotate(r.Context(), r.Org.ID, o.Build.ID, jobID, change)
	if err != nil {
		return annotationView{}, err
	}
	var html []string
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		html, err = htmlOf(q, []Annotation{a}, maxListed)
		return err
	})
	if err == nil {
		html, err = s.apiLinks(r, o, html)
	}
	if err != nil {
		return annotationView{}, err
	}
	v := a.view()
	v.BodyHTML = &html[0]
	return v, nil
}

func (s *Service) delete(r *route.Request, o builds.OnBuild) (route.Nothing, error) {
	id, err := r.PathID("annotation", noAnnotation)
	if err != nil {
		return route.Nothing{}, err
	}
	return route.Nothing{}, s.removeByID(r.Context(), o.Build, id)
}

func (s *Service) deleteOfJob(r *route.Request, o builds.OnJob) (route.Nothing, error) {
	id, err := r.PathID("annotation", noAnnotation)
	if err != nil {
		return route.Nothing{}, err
	}
	err = s.db.Read(r.Context(), func(q *db.Q) error {
		_, err := one(q, `build_id = $1 AND job_id = $2 AND id = $3`, o.Build.ID, o.ID, id)
		return err
	})
	if err != nil {
		return route.Nothing{}, err
	}
	return route.Nothing{}, s.removeByID(r.Context(), o.Build, id)
}
