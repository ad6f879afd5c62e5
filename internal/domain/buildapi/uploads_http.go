package buildapi

import (
	"net/http"

	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) uploadRoutes() []route.Route {
	list := builds.BuildPath + "/step-uploads"
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: list, Summary: "List the step uploads of a build",
			Description: "Newest first.",
			Query:       append([]route.Param{{Name: sourceJobFilter, Doc: "The id of the job whose uploads are listed."}}, route.CursorParams...),
			Handler:     route.On(s.builds.LoadOnBuild, s.getUploads),
		},
		{
			Method: http.MethodGet, Path: list + "/{upload}", Summary: "Get a step upload",
			Handler: route.On(s.builds.LoadOnBuild, s.getUpload),
		},
	}
	for i := range routes {
		routes[i].Tag, routes[i].Scope, routes[i].Permission = "Step uploads", identity.ReadBuilds, identity.ReadPipeline
	}
	return routes
}

const sourceJobFilter = "filter[source_job_id]"

type stepUploadView struct {
	UUID                 string                `json:"uuid"`
	GraphQLID            string                `json:"graphql_id"`
	State                builds.UploadState    `json:"state"`
	Source               string                `json:"source" doc:"Always job."`
	SourceJobID          string                `json:"source_job_id"`
	ReplaceExistingSteps bool                  `json:"replace_existing_steps"`
	CreatedJobsCount     *int                  `json:"created_jobs_count"`
	RejectionType        *builds.RejectionType `json:"rejection_type" doc:"invalid_definition when it cannot be read, refused_steps when the build cannot have its steps."`
	Message              *string               `json:"message" doc:"Why it was rejected."`
	URL                  string                `json:"url"`
	CreatedAt            core.Time             `json:"created_at"`
	ProcessedAt          core.Time             `json:"processed_at"`
}

type wholeStepUploadView struct {
	stepUploadView
	DefinitionBytes       int     `json:"definition_bytes"`
	DefinitionYAML        *string `json:"definition_yaml" doc:"The definition as it was uploaded; null when it is too large to be kept."`
	DefinitionYAMLOmitted bool    `json:"definition_yaml_omitted"`
}

func (s *Service) uploadView(r *route.Request, o builds.OnBuild, u *builds.StepUpload) stepUploadView {
	v := stepUploadView{
		UUID:                 u.ID,
		GraphQLID:            core.GraphQLID("StepUpload", u.ID),
		State:                u.State,
		Source:               "job",
		SourceJobID:          u.JobID,
		ReplaceExistingSteps: u.Replace,
		CreatedJobsCount:     u.CreatedJobs,
		Message:              core.OrNull(u.Message),
		URL:                  s.builds.Address(r.Org, o.Pipeline, o.Number).API("step-uploads", u.ID),
		CreatedAt:            core.At(u.CreatedAt),
		ProcessedAt:          core.At(u.CreatedAt),
	}
	if u.Rejection != "" {
		v.RejectionType = &u.Rejection
	}
	return v
}

func (s *Service) getUploads(r *route.Request, o builds.OnBuild) (route.Items[stepUploadView], error) {
	page, err := r.CursorPage("uploads of "+o.Build.ID, 1)
	if err != nil {
		return route.Items[stepUploadView]{}, err
	}
	var uploads []*builds.StepUpload
	err = s.db.Read(r.Context(), func(q *db.Q) (err error) {
		uploads, err = builds.ListUploads(q, o.Build.ID, r.FormQuery(sourceJobFilter), page)
		return err
	})
	if err != nil {
		return route.Items[stepUploadView]{}, err
	}
	return route.ItemsOf(r, page, uploads,
		func(u *builds.StepUpload) core.Cursor { return core.Cursor{u.Sequence} },
		func(u *builds.StepUpload) stepUploadView { return s.uploadView(r, o, u) }), nil
}

func (s *Service) getUpload(r *route.Request, o builds.OnBuild) (wholeStepUploadView, error) {
	u, err := route.ReadByID(r, s.db, "upload", builds.NoUpload, func(q *db.Q, id string) (*builds.StepUpload, error) {
		return builds.UploadByID(q, o.Build.ID, id)
	})
	if err != nil {
		return wholeStepUploadView{}, err
	}
	return wholeStepUploadView{
		stepUploadView:        s.uploadView(r, o, u),
		DefinitionBytes:       u.Bytes,
		DefinitionYAML:        core.OrNull(u.Definition),
		DefinitionYAMLOmitted: u.Omitted(),
	}, nil
}
