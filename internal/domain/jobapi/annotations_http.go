package jobapi

import (
	"net/http"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/annotations"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Service) annotationRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: agents.JobPath + "/annotations", Tag: agents.JobTag, Summary: "Annotate the job's build, or the job",
			Description: "A context has one annotation. Annotating again replaces its body, or appends to it. Without a body, only style and priority change.",
			Auth:        route.Job,
			Handler:     route.OnBody(s.agents.LoadJob, s.postAnnotation),
		},
		{
			Method: http.MethodDelete, Path: agents.JobPath + "/annotations/{context}", Tag: agents.JobTag, Summary: "Remove an annotation of the job's build, or of the job",
			Query:   []route.Param{{Name: "scope", Doc: "build or job. Defaults to build."}},
			Auth:    route.Job,
			Errors:  []int{http.StatusUnprocessableEntity},
			Handler: route.On(s.agents.LoadJob, s.deleteAnnotation),
		},
	}
}

type jobAnnotationCreate struct {
	Body     route.Opt[string]            `json:"body" doc:"Markdown or HTML, up to 1 MiB."`
	Context  string                       `json:"context" doc:"Identifies the annotation. Defaults to default."`
	Style    route.Opt[annotations.Style] `json:"style"`
	Append   bool                         `json:"append" doc:"Whether to append to the body instead of replacing it."`
	Priority route.Opt[int]               `json:"priority" doc:"1 to 10, the highest first. Defaults to 3."`
	Scope    string                       `json:"scope" doc:"build or job. Defaults to build."`
}

func (c jobAnnotationCreate) change() annotations.Change {
	n := annotations.Change{Context: c.Context, Append: c.Append}
	if c.Body.Set && !c.Body.Null {
		n.Body = &c.Body.Value
	}
	if c.Style.Value != "" {
		n.Style = &c.Style.Value
	}
	if c.Priority.Value != 0 {
		n.Priority = &c.Priority.Value
	}
	return n
}

func (s *Service) postAnnotation(r *route.Request, h builds.Holding, body jobAnnotationCreate) (agents.EmptyView, error) {
	jobID, err := annotatedJob(h, body.Scope)
	if err != nil {
		return agents.EmptyView{}, err
	}
	_, err = s.annotations.Annotate(r.Context(), r.Org.ID, h.BuildID, jobID, body.change())
	return agents.EmptyView{}, err
}

// deleteAnnotation returns the same response when there is no annotation, so that the request can be repeated.
func (s *Service) deleteAnnotation(r *route.Request, h builds.Holding) (agents.EmptyView, error) {
	jobID, err := annotatedJob(h, r.FormQuery("scope"))
	if err != nil {
		return agents.EmptyView{}, err
	}
	return agents.EmptyView{}, s.annotations.Remove(r.Context(), r.Org.ID, h.BuildID, jobID, r.PathValue("context"))
}

// annotatedJob returns the job that an annotation is about, "" for the whole build.
func annotatedJob(h builds.Holding, scope string) (jobID string, err error) {
	switch scope {
	case "", "build":
		return "", nil
	case "job":
		return h.JobID, nil
	}
	return "", core.Errorf(core.Unprocessable, "The scope of an annotation is build or job, not %q", scope)
}
