package jobapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"stackyard/internal/domain/agents"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/blob"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Service) artifactRoutes() []route.Route {
	return []route.Route{
		{
			Method: http.MethodPost, Path: agents.JobPath + "/artifacts", Tag: agents.JobTag, Summary: "Announce artifacts of the job",
			Description: "Returns the URLs to which their bytes are sent. Repeating a batch returns the same response.",
			Auth:        route.Job,
			Handler:     route.OnBody(s.agents.LoadJob, s.postArtifacts),
		},
		{
			Method: http.MethodPut, Path: agents.JobPath + "/artifacts", Tag: agents.JobTag, Summary: "Update the states of artifacts",
			Auth:    route.Job,
			Handler: route.OnBody(s.agents.LoadJob, s.putArtifacts),
		},
		{
			Method: http.MethodGet, Path: agents.BuildPath + "/artifacts/search", Tag: agents.JobTag, Summary: "Search artifacts of the job's build",
			Description: "Returns the newest artifacts first, and only the newest of each path unless include_duplicates is true.",
			Query: []route.Param{
				{Name: "query", Doc: "Path. * matches any characters, including slashes."},
				{Name: "scope", Doc: "The key or label of a step, or the id of a job."},
				{Name: "state", Doc: "State of the artifacts, for example finished."},
				{Name: "include_retried_jobs", Type: "boolean", Doc: "Whether to include artifacts of retried jobs."},
				{Name: "include_duplicates", Type: "boolean", Doc: "Whether to return all artifacts of a path."},
			},
			Errors:  []int{http.StatusUnprocessableEntity},
			Auth:    route.Job,
			Handler: route.On(s.agents.LoadJobOfBuild, s.searchArtifacts),
		},
	}
}

type artifactBatch struct {
	ID                 string              `json:"id" doc:"Idempotency key: the same batch is added once."`
	UploadDestination  string              `json:"upload_destination" doc:"The agent's own storage. Empty: the bytes are sent to the server."`
	MultipartSupported bool                `json:"multipart_supported"`
	DirectSupported    bool                `json:"direct_supported" doc:"The agent follows direct_uploads."`
	Artifacts          []artifactAnnounced `json:"artifacts"`
}

type artifactAnnounced struct {
	Path        string `json:"path"`
	FileSize    int64  `json:"file_size"`
	SHA1Sum     string `json:"sha1sum"`
	SHA256Sum   string `json:"sha256sum"`
	ContentType string `json:"content_type"`
	URL         string `json:"url" doc:"URL of the bytes, with an upload_destination."`
}

// artifacts returns the artifacts that the batch announces.
func (b artifactBatch) artifacts() []artifacts.Artifact {
	list := make([]artifacts.Artifact, len(b.Artifacts))
	for i, a := range b.Artifacts {
		list[i] = artifacts.Artifact{
			Path: a.Path, FileSize: a.FileSize, SHA1: a.SHA1Sum, SHA256: a.SHA256Sum, MimeType: a.ContentType,
			Destination: b.UploadDestination, Parts: 1,
		}
		if b.UploadDestination != "" {
			list[i].Location = a.URL
		} else if b.MultipartSupported {
			list[i].Parts = countParts(a.FileSize)
		}
	}
	return list
}

type artifactInstructionsView struct {
	ID                      string                       `json:"id"`
	ArtifactIDs             []string                     `json:"artifact_ids" doc:"In the order of the batch."`
	UploadInstructions      *artifactFormView            `json:"upload_instructions,omitempty"`
	PerArtifactInstructions map[string]artifactPartsView `json:"per_artifact_instructions,omitempty" doc:"By artifact id, for files that are sent in parts."`
	DirectUploads           map[string]directUploadView  `json:"direct_uploads,omitempty" doc:"By artifact id, for files that can be sent to the bucket of the server instead."`
}

// artifactFormView describes the form that sends a file: the fields of data, then the file.
type artifactFormView struct {
	Action artifactFormActionView `json:"action"`
	Data   map[string]string      `json:"data"`
}

type artifactFormActionView struct {
	URL       string `json:"url"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	FileInput string `json:"file_input"`
}

// artifactPartsView lists the URLs to which the parts of a file are sent.
type artifactPartsView struct {
	Actions []artifactPartView `json:"actions"`
}

type artifactPartView struct {
	URL        string `json:"url"`
	Method     string `json:"method"`
	PartNumber int    `json:"part_number"`
}

// directUploadView describes the request that stores a file in the bucket of the server.
type directUploadView struct {
	URL     string              `json:"url"`
	Method  string              `json:"method"`
	Headers map[string][]string `json:"headers"`
}

// directUploads returns the requests that store files in the bucket. The agent can always send them to the server instead.
func (s *Service) directUploads(ctx context.Context, list []artifacts.Artifact) (map[string]directUploadView, error) {
	views := make(map[string]directUploadView)
	for _, a := range list {
		if !a.Kept() || a.Parts > 1 || a.SHA256 == "" || a.FileSize > blob.MaxDirect {
			continue
		}
		to, headers, err := s.blobs.SignPut(ctx, partKey(a, 1), a.SHA256, uploadLifetime)
		if err != nil {
			return nil, unavailable(err)
		}
		views[a.ID] = directUploadView{URL: to, Method: http.MethodPut, Headers: headers}
	}
	return views, nil
}

func (s *Service) postArtifacts(r *route.Request, h builds.Holding, body artifactBatch) (artifactInstructionsView, error) {
	made, err := s.artifacts.Add(r.Context(), r.Org.ID, h.JobID, body.ID, body.artifacts())
	if err != nil {
		return artifactInstructionsView{}, err
	}
	urls := s.urls.forCaller(r)
	v := artifactInstructionsView{ID: body.ID, ArtifactIDs: make([]string, len(made))}
	for i, a := range made {
		v.ArtifactIDs[i] = a.ID
		if a.Kept() && a.Parts > 1 {
			if v.PerArtifactInstructions == nil {
				v.PerArtifactInstructions = make(map[string]artifactPartsView)
			}
			v.PerArtifactInstructions[a.ID] = partsView(urls, a)
		}
	}
	if body.UploadDestination == "" {
		form := formView(urls, h.JobID, body.ID)
		v.UploadInstructions = &form
	}
	if body.DirectSupported && s.blobs.Direct() {
		v.DirectUploads, err = s.directUploads(r.Context(), made)
	}
	return v, err
}

// formView returns the form for the files of a batch. Agents replace the placeholder of the path.
func formView(u urlSigner, jobID, batchID string) artifactFormView {
	batchID, _ = core.ParseID(batchID)
	address := u.public.To(artifactsSegment, formSegment)
	path := address
	if parsed, err := url.Parse(address); err == nil {
		path = parsed.Path
	}
	data := map[string]string{"job": jobID, "batch": batchID, "path": "${artifact:path}"}
	for name, values := range u.sign(uploadLifetime, formSegment, jobID, batchID) {
		data[name] = values[0]
	}
	return artifactFormView{
		Action: artifactFormActionView{URL: address, Method: http.MethodPost, Path: path, FileInput: fileField},
		Data:   data,
	}
}

func partsView(u urlSigner, a artifacts.Artifact) artifactPartsView {
	v := artifactPartsView{Actions: make([]artifactPartView, a.Parts)}
	for i := range v.Actions {
		number := strconv.Itoa(i + 1)
		v.Actions[i] = artifactPartView{
			URL:        u.url(uploadLifetime, artifactsSegment, a.ID, partsSegment, number),
			Method:     http.MethodPut,
			PartNumber: i + 1,
		}
	}
	return v
}

type artifactUpdates struct {
	Artifacts []artifactUpdate `json:"artifacts"`
}

type artifactUpdate struct {
	ID             string             `json:"id"`
	State          artifacts.State    `json:"state" doc:"finished or error."`
	MultipartETags []artifactPartETag `json:"multipart_etags" doc:"The ETag header of each part's response."`
}

type artifactPartETag struct {
	PartNumber int    `json:"part_number"`
	ETag       string `json:"etag"`
}

func (s *Service) putArtifacts(r *route.Request, h builds.Holding, body artifactUpdates) (agents.EmptyView, error) {
	states := make(map[string]artifacts.State, len(body.Artifacts))
	for _, u := range body.Artifacts {
		if u.State != artifacts.StateFinished && u.State != artifacts.StateError {
			return agents.EmptyView{}, core.Errorf(core.Unprocessable, "The state of an artifact becomes finished or error, not %q", u.State)
		}
		states[u.ID] = u.State
	}
	ids := make([]string, 0, len(states))
	for id := range states {
		ids = append(ids, id)
	}
	list, err := s.artifacts.OfJob(r.Context(), r.Org.ID, h.JobID, ids)
	if err != nil {
		return agents.EmptyView{}, err
	}
	if len(list) < len(ids) {
		return agents.EmptyView{}, core.Errorf(core.NotFound, "The job has no artifact with one of these ids")
	}
	if err := s.checkAllStored(r.Context(), list, body.Artifacts); err != nil {
		return agents.EmptyView{}, err
	}
	return agents.EmptyView{}, s.artifacts.SetStates(r.Context(), r.Org.ID, h.JobID, states)
}

// checkAllStored returns an error unless the bytes of all artifacts that become finished are stored.
func (s *Service) checkAllStored(ctx context.Context, list []artifacts.Artifact, updates []artifactUpdate) error {
	byID := make(map[string]artifacts.Artifact, len(list))
	for _, a := range list {
		byID[a.ID] = a
	}
	for _, u := range updates {
		a := byID[u.ID]
		if u.State != artifacts.StateFinished || a.State == artifacts.StateFinished || !a.Kept() {
			continue
		}
		receipts := make(map[int]string, len(u.MultipartETags))
		for _, part := range u.MultipartETags {
			receipts[part.PartNumber] = strings.Trim(part.ETag, `"`)
		}
		if err := s.checkStored(ctx, a, receipts); err != nil {
			return err
		}
	}
	return nil
}

type foundArtifactView struct {
	ID                string    `json:"id"`
	JobID             string    `json:"job_id"`
	Path              string    `json:"path"`
	URL               string    `json:"url" doc:"URL of the bytes. It expires."`
	FileSize          int64     `json:"file_size"`
	SHA1Sum           string    `json:"sha1sum"`
	SHA256Sum         string    `json:"sha256sum"`
	UploadDestination string    `json:"upload_destination,omitempty"`
	CreatedAt         core.Time `json:"created_at"`
}

func (s *Service) searchArtifacts(r *route.Request, h builds.Holding) ([]foundArtifactView, error) {
	search := artifacts.Search{Query: r.FormQuery("query"), Scope: r.FormQuery("scope"), State: r.FormQuery("state")}
	var err error
	if search.Retried, err = r.Flag("include_retried_jobs", false); err != nil {
		return nil, err
	}
	if search.Duplicates, err = r.Flag("include_duplicates", false); err != nil {
		return nil, err
	}
	found, err := s.artifacts.Find(r.Context(), r.Org.ID, h.BuildID, search)
	if err != nil {
		return nil, err
	}
	urls := s.urls.forCaller(r)
	views := make([]foundArtifactView, len(found))
	for i, a := range found {
		views[i] = foundArtifactView{
			ID: a.ID, JobID: a.JobID, Path: a.Path, FileSize: a.FileSize, SHA1Sum: a.SHA1, SHA256Sum: a.SHA256,
			URL:               s.foundURL(r.Context(), urls, a),
			UploadDestination: a.Destination,
			CreatedAt:         core.At(a.CreatedAt),
		}
	}
	return views, nil
}

// foundURL returns the URL at which an agent downloads an artifact: in the bucket if agents can reach it.
func (s *Service) foundURL(ctx context.Context, urls urlSigner, a artifacts.Artifact) string {
	if s.blobs.Direct() && a.Kept() && a.Parts == 1 && a.State == artifacts.StateFinished {
		if direct, err := s.blobs.SignGet(ctx, partKey(a, 1), downloadLifetime); err == nil {
			return direct
		}
	}
	return urls.artifactURL(a, downloadLifetime)
}
