package jobapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/builds/lifecycle"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Service) uploadRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: agents.JobPath + "/pipelines", Tag: agents.JobTag, Summary: "Upload steps to the job's build",
			Description: "Adds all steps or none. Repeating a uuid returns its result.",
			Query:       []route.Param{{Name: "async", Type: "boolean", Doc: "Accepted and ignored."}},
			Auth:        route.Job,
			Handler:     route.OnBody(s.agents.LoadJob, s.postUpload),
		},
		{
			Method: http.MethodGet, Path: agents.JobPath + "/pipelines/{upload}", Tag: agents.JobTag, Summary: "Get the state of an upload",
			Auth:    route.Job,
			Handler: route.On(s.agents.LoadJob, s.getUpload),
		},
	}
}

type pipelineUpload struct {
	UUID     string          `json:"uuid" doc:"Idempotency key: the same upload is applied once."`
	Replace  bool            `json:"replace" doc:"Whether to replace all steps that have not started."`
	Pipeline json.RawMessage `json:"pipeline" doc:"The pipeline definition, interpolated."`
}

type pipelineUploadStateView struct {
	UUID    string             `json:"uuid"`
	State   builds.UploadState `json:"state"`
	Message string             `json:"message,omitempty" doc:"Why it was rejected."`
}

func (s *Service) postUpload(r *route.Request, h builds.Holding, body pipelineUpload) (pipelineUploadStateView, error) {
	if len(body.Pipeline) == 0 {
		return pipelineUploadStateView{}, core.Errorf(core.BadRequest, "pipeline is required")
	}
	up, err := s.builds.Upload(r.Context(), r.Org.ID, h.JobID, lifecycle.Upload{
		ID:         body.UUID,
		Definition: indentJSON(body.Pipeline),
		Replace:    body.Replace,
	})
	if err != nil {
		return pipelineUploadStateView{}, err
	}
	return viewUpload(up), nil
}

// indentJSON puts each value on its own line. Agents send the whole definition on one line, which is hard to
// read and makes the line numbers of errors useless.
func indentJSON(definition []byte) []byte {
	var lines bytes.Buffer
	if err := json.Indent(&lines, definition, "", "  "); err != nil || lines.Len() > maxIndented {
		return definition
	}
	return lines.Bytes()
}

// maxIndented is the largest result of indentJSON: a larger one is mostly white space.
const maxIndented = 512 << 10

func (s *Service) getUpload(r *route.Request, h builds.Holding) (pipelineUploadStateView, error) {
	id, err := r.PathID("upload", "No step upload found")
	if err != nil {
		return pipelineUploadStateView{}, err
	}
	up, err := s.builds.StepUpload(r.Context(), r.Org.ID, h.BuildID, id)
	if err != nil {
		return pipelineUploadStateView{}, err
	}
	return viewUpload(up), nil
}

func viewUpload(up *builds.StepUpload) pipelineUploadStateView {
	return pipelineUploadStateView{UUID: up.ID, State: up.State, Message: up.Message}
}
