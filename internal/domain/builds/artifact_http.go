package builds

import (
	"net/http"
	"path"
	"strings"

	"stackyard/internal/domain/pipelines"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

type artifactView struct {
	ID           string        `json:"id"`
	JobID        string        `json:"job_id"`
	URL          string        `json:"url"`
	DownloadURL  string        `json:"download_url"`
	State        ArtifactState `json:"state"`
	Path         string        `json:"path"`
	Dirname      string        `json:"dirname"`
	Filename     string        `json:"filename"`
	MimeType     string        `json:"mime_type"`
	FileSize     int64         `json:"file_size"`
	GlobPath     *string       `json:"glob_path" doc:"Always null."`
	OriginalPath *string       `json:"original_path" doc:"Always null."`
	SHA1Sum      string        `json:"sha1sum"`
	SHA256Sum    *string       `json:"sha256sum"`
	CreatedAt    core.Time     `json:"created_at"`
}

func (s *Service) artifactRoutes() []route.Route {
	params := append([]route.Param{
		{Name: "state", Doc: "The state of the artifacts to list: new, error, finished, expired."},
		{Name: "path", Doc: "The path of the artifacts to list; * stands for anything."},
	}, route.PageParams...)
	unprocessable := []int{http.StatusUnprocessableEntity}
	routes := []route.Route{
		{Method: http.MethodGet, Path: buildPath + "/artifacts", Summary: "List the artifacts of a build", Query: params, Errors: unprocessable, Handler: route.On(s.loadBuild, s.getArtifacts)},
	}
	for i, jobPath := range JobPaths {
		one := ArtifactPaths[i]
		routes = append(routes,
			route.Route{Method: http.MethodGet, Path: jobPath + "/artifacts", Summary: "List the artifacts of a job", Query: params, Errors: unprocessable, Handler: route.On(s.loadJob, s.getJobArtifacts)},
			route.Route{Method: http.MethodGet, Path: one, Summary: "Get an artifact", Handler: route.On(s.LoadArtifact, s.getArtifact)},
			route.Route{Method: http.MethodDelete, Path: one, Summary: "Delete an artifact", Status: http.StatusNoContent, Handler: route.On(s.LoadArtifact, s.deleteArtifact)},
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

// ArtifactPaths are the two forms of an artifact's path, which behave the same.
var ArtifactPaths = []string{JobPaths[0] + "/artifacts/{artifact}", JobPaths[1] + "/artifacts/{artifact}"}

// OnArtifact is an artifact together with its job, whose pipeline decides who may see and delete it.
type OnArtifact struct {
	OnJob
	Artifact Artifact
}

// LoadArtifact returns the artifact that a path of either form names.
func (s *Service) LoadArtifact(r *route.Request) (OnArtifact, error) {
	job, err := s.loadJob(r)
	if err != nil {
		return OnArtifact{}, err
	}
	id, err := r.PathID("artifact", noArtifact)
	if err != nil {
		return OnArtifact{}, err
	}
	o := OnArtifact{OnJob: job}
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		o.Artifact, err = artifactByID(q, job.ID, id)
		return err
	})
	return o, err
}

func (s *Service) artifactView(r *route.Request, p *pipelines.Pipeline, b *Build, a Artifact) artifactView {
	url := s.place(r.Org, p, b.Number).api("jobs", a.JobID, "artifacts", a.ID)
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
		SHA256Sum:   orNull(a.SHA256),
		CreatedAt:   core.At(a.CreatedAt),
	}
}

func (s *Service) getArtifacts(r *route.Request, o OnBuild) (route.Paged[artifactView], error) {
	var where db.Statement
	where.Where("a.build_id = %s", o.Build.ID)
	return s.artifactPage(r, o, &where)
}

func (s *Service) getJobArtifacts(r *route.Request, o OnJob) (route.Paged[artifactView], error) {
	var where db.Statement
	where.Where("a.job_id = %s", o.ID)
	return s.artifactPage(r, OnBuild{o.Build, o.Pipeline}, &where)
}

func (s *Service) artifactPage(r *route.Request, o OnBuild, where *db.Statement) (route.Paged[artifactView], error) {
	none := route.Paged[artifactView]{}
	page, err := r.Page()
	if err != nil {
		return none, err
	}
	f := artifactFilter{state: strings.ToLower(r.FormQuery("state")), path: r.FormQuery("path")}
	if err := f.restrict(where); err != nil {
		return none, err
	}
	var list []Artifact
	var total int
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		list, total, err = listArtifacts(q, where, page.Size, page.Offset())
		return err
	})
	return route.MapPage(list, page, total, func(a Artifact) artifactView { return s.artifactView(r, o.Pipeline, o.Build, a) }), err
}

func (s *Service) getArtifact(r *route.Request, o OnArtifact) (artifactView, error) {
	return s.artifactView(r, o.Pipeline, o.Build, o.Artifact), nil
}

func (s *Service) deleteArtifact(r *route.Request, o OnArtifact) (route.Nothing, error) {
	return route.Nothing{}, s.removeArtifact(r.Context(), o.Artifact)
}
