package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// MaxBatch is the maximum number of artifacts in one call of CreateArtifacts.
const MaxBatch = 30

// An Artifact is a file of a job.
type Artifact struct {
	ID           string `json:"id,omitempty"`
	Path         string `json:"path"` // with slashes
	AbsolutePath string `json:"absolute_path,omitempty"`
	Size         int64  `json:"file_size"`
	SHA1         string `json:"sha1sum"`
	SHA256       string `json:"sha256sum"`
	ContentType  string `json:"content_type,omitempty"`

	// Set in search results.
	URL       string    `json:"url,omitempty"`
	JobID     string    `json:"job_id,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
	// Destination is the bucket that the file was uploaded to; "": the server has it.
	Destination string `json:"upload_destination,omitempty"`
}

// A Batch is the result of CreateArtifacts: an id for each artifact, and how to upload the bytes.
type Batch struct {
	ArtifactIDs  []string         `json:"artifact_ids"`
	Instructions FormInstructions `json:"upload_instructions"`
	// Direct are requests, by id, that send files to the bucket of the server. The form works, too.
	Direct map[string]DirectUpload `json:"direct_uploads"`
}

// A DirectUpload is a signed request that stores a file in a bucket.
type DirectUpload struct {
	URL     string      `json:"url"`
	Method  string      `json:"method"`
	Headers http.Header `json:"headers"`
}

// FormInstructions describe the form that uploads a file. They are signed, so no token is sent.
type FormInstructions struct {
	Action struct {
		URL       string `json:"url"`
		Method    string `json:"method"`
		Path      string `json:"path"`
		FileInput string `json:"file_input"`
	} `json:"action"`
	Data map[string]string `json:"data"`
}

// byEndpoint requests URLs that start with the client's endpoint instead of the server's public URL, which the
// client may not reach.
func (c *Client) byEndpoint() http.Header { return http.Header{"Stackyard-Endpoint": {c.endpoint}} }

// CreateArtifacts creates artifacts before their upload to the server, or to a destination of the agent's own. The batch id
// makes it safe to retry.
func (c *Client) CreateArtifacts(ctx context.Context, jobID, batchID, destination string, artifacts []Artifact) (Batch, error) {
	body := struct {
		ID          string     `json:"id"`
		Destination string     `json:"upload_destination"`
		Direct      bool       `json:"direct_supported"`
		Artifacts   []Artifact `json:"artifacts"`
	}{batchID, destination, true, artifacts}
	var batch Batch
	err := c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "artifacts"), header: c.byEndpoint(), body: body, answer: &batch, deadline: true, retry: insideJob})
	return batch, err
}

// ArtifactState is the state of an artifact's upload.
type ArtifactState struct {
	ID    string `json:"id"`
	State string `json:"state"` // finished or error
}

// UpdateArtifacts reports the state of uploads.
func (c *Client) UpdateArtifacts(ctx context.Context, jobID string, states []ArtifactState) error {
	body := struct {
		Artifacts []ArtifactState `json:"artifacts"`
	}{states}
	return c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "artifacts"), body: body, deadline: true,
		retry: retry{tries: 10, wait: growing(time.Second, 5*time.Second), again: always}})
}

// An ArtifactQuery selects artifacts of a build.
type ArtifactQuery struct {
	Glob           string // of paths
	Scope          string // a step's key or name, or a job's id; "" for all
	State          string
	IncludeRetried bool // include artifacts of retried jobs
	IncludeAll     bool // all artifacts with the same path, not only the newest
}

// SearchArtifacts finds artifacts of a build.
func (c *Client) SearchArtifacts(ctx context.Context, buildID string, q ArtifactQuery) ([]Artifact, error) {
	query := url.Values{"query": {q.Glob}}
	for name, value := range map[string]string{"scope": q.Scope, "state": q.State} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, set := range map[string]bool{"include_retried_jobs": q.IncludeRetried, "include_duplicates": q.IncludeAll} {
		if set {
			query.Set(name, "true")
		}
	}
	var found []Artifact
	err := c.do(ctx, call{method: http.MethodGet, path: path("builds", buildID, "artifacts", "search"), query: query, header: c.byEndpoint(), answer: &found, retry: insideJob})
	return found, err
}
