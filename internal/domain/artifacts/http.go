package artifacts

import (
	"net/http"
	"path"
	"strings"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

type artifactView struct {
	ID           string    `json:"id"`
	JobID        string    `json:"job_id"`
	URL          string    `json:"url"`
	DownloadURL  string    `json:"download_url"`
	State        State     `json:"state"`
	Path         string    `json:"path"`
	Dirname      string    `json:"dirname"`
	Filename     string    `json:"filename"`
	MimeType     string    `json:"mime_type"`
	FileSize     int64     `json:"file_size"`
	GlobPath     *string   `json:"glob_path" doc:"Always null."`
	OriginalPath *string   `json:"original_path" doc:"Always null."`
	SHA1Sum      string    `json:"sha1sum"`
	SHA256Sum    *string   `json:"sha256sum"`
	CreatedAt    core.Time `json:"created_at"`
}

// Routes returns the routes of artifacts.
func (s *Service) Routes() []route.Route {
	params := append([]route.Param{
		{Name: "state", Doc: "The state of the artifacts to list: new, error, finished, expired."},
		{Name: "path", Doc: "The path of the artifacts to list; * matches anything."},
	}, route.PageParams...)
	unprocessable := []int{http.StatusUnprocessableEntity}
	routes := []route.Route{
		{Method: http.MethodGet, Path: builds.BuildPath + "/artifacts", Summary: "List the artifacts of a build", Query: params, Errors: unprocessable, Handler: route.On(s.builds.LoadOnBuild, s.getAll)},
	}
	for i, jobPath := range builds.JobPaths {
		one := Paths[i]
		routes = append(routes,
			route.Route{Method: http.MethodGet, Path: jobPath + "/artifacts", Summary: "List the artifacts of a job", Query: params, Errors: unprocessable, Handler: route.On(s.builds.LoadOnJob, s.getAllOfJob)},
			route.Route{Method: http.MethodGet, Path: one, Summary: "Get an artifact", Handler: route.On(s.Load, s.get)},
			route.Route{Method: http.MethodDelete, Path: one, Summary: "Delete an artifact", Status: http.StatusNoContent, Handler: route.On(s.Load, s.delete)},
		)
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope, r.Permission = "Artifacts", identity.WriteArtifacts, identity.BuildPipeline
		if r.Method == http.MethodGet {
			r.Scope, r.Permission, r.Visitors = identity.ReadArtifacts, identity.ReadPipeline, true
		}
	}
	return routes
}

// Paths are the two forms of an artifact's path. Both behave the same.
var Paths = []string{builds.JobPaths[0] + "/artifacts/{artifact}", builds.JobPaths[1] + "/artifacts/{artifact}"}

// OnArtifact is an artifact together with its job, whose pipeline decides who may see and delete it.
type OnArtifact struct {
	builds.OnJob
	Artifact Artifact
}

// Load returns the artifact of a request whose path has one of the forms of [Paths].
func (s *Service) Load(r *route.Request) (OnArtifact, error) {
	job, err := s.builds.LoadOnJob(r)
	if err != nil {
		return OnArtifact{}, err
	}
	a, err := route.ReadByID(r, s.db, "artifact", noArtifact, func(q *db.Q, id string) (Artifact, error) { return byID(q, job.ID, id) })
	return OnArtifact{OnJob: job, Artifact: a}, err
}

func (s *Service) view(r *route.Request, p *pipelines.Pipeline, b *builds.Build, a Artifact) artifactView {
	url := s.builds.Address(r.Org, p, b.Number).API("jobs", a.JobID, "artifacts", a.ID)
	return artifactView{
		ID:          a.ID,
		JobID:       a.JobID,
		URL:         url,
		DownloadURL: url + "/download",
		State:       a.State,
		Path:        a.Path,
		Dirname:     path.Dir(a.Path),
		Filename:    path.Base(a.Path),
		MimeType:    a.MimeType,
		FileSize:    a.FileSize,
		SHA1Sum:     a.SHA1,
		SHA256Sum:   core.OrNull(a.SHA256),
		CreatedAt:   core.At(a.CreatedAt),
	}
}

func (s *Service) getAll(r *route.Request, o builds.OnBuild) (route.Paged[artifactView], error) {
	var where db.Statement
	where.Where("a.build_id = %s", o.Build.ID)
	return s.page(r, o, &where)
}

func (s *Service) getAllOfJob(r *route.Request, o builds.OnJob) (route.Paged[artifactView], error) {
	var where db.Statement
	where.Where("a.job_id = %s", o.ID)
	return s.page(r, builds.OnBuild{Build: o.Build, Pipeline: o.Pipeline}, &where)
}

// page returns the requested page of the artifacts of a build that meet the conditions in where and in the query.
func (s *Service) page(r *route.Request, o builds.OnBuild, where *db.Statement) (none route.Paged[artifactView], err error) {
	f := filter{state: strings.ToLower(r.FormQuery("state")), path: r.FormQuery("path")}
	if err := f.restrict(where); err != nil {
		return none, err
	}
	return route.ReadPage(r, s.db,
		func(q *db.Q, limit, offset int) ([]Artifact, int, error) { return list(q, where, limit, offset) },
		func(a Artifact) artifactView { return s.view(r, o.Pipeline, o.Build, a) })
}

func (s *Service) get(r *route.Request, o OnArtifact) (artifactView, error) {
	return s.view(r, o.Pipeline, o.Build, o.Artifact), nil
}

func (s *Service) delete(r *route.Request, o OnArtifact) (route.Nothing, error) {
	return route.Nothing{}, s.remove(r.Context(), o.Artifact)
}
