package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// MaxBatch is how many artifacts can be announced in one call.
const MaxBatch = 30

// An Artifact is a file that a job has made.
type Artifact struct {
	ID           string `json:"id,omitempty"`
	Path         string `json:"path"` // with slashes
	AbsolutePath string `json:"absolute_path,omitempty"`
	Size         int64  `json:"file_size"`
	SHA1         string `json:"sha1sum"`
	SHA256       string `json:"sha256sum"`
	ContentType  string `json:"content_type,omitempty"`

	// What searches tell.
	URL       string    `json:"url,omitempty"`
	JobID     string    `json:"job_id,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// A Batch is what a server answers to announced artifacts: an id for each, and how to send the bytes.
type Batch struct {
	ArtifactIDs  []string         `json:"artifact_ids"`
	Instructions FormInstructions `json:"upload_instructions"`
}

// FormInstructions say where to send a file to as a form, and with which fields. They carry their own
// signature: no token is sent.
type FormInstructions struct {
	Action struct {
		URL       string `json:"url"`
		Method    string `json:"method"`
		Path      string `json:"path"`
		FileInput string `json:"file_input"`
	} `json:"action"`
	Data map[string]string `json:"data"`
}

// byEndpoint asks for addresses that begin with the client's endpoint instead of the server's public one,
// which may be out of the client's reach.
func (c *Client) byEndpoint() http.Header { return http.Header{"Stackyard-Endpoint": {c.endpoint}} }

// CreateArtifacts announces files. The id of the batch makes it safe to repeat.
func (c *Client) CreateArtifacts(ctx context.Context, jobID, batchID string, artifacts []Artifact) (Batch, error) {
	body := struct {
		ID          string     `json:"id"`
		Destination string     `json:"upload_destination"`
		Artifacts   []Artifact `json:"artifacts"`
	}{batchID, "", artifacts}
	var batch Batch
	err := c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "artifacts"), header: c.byEndpoint(), body: body, answer: &batch, deadline: true, retry: insideJob})
	return batch, err
}

// ArtifactState is what became of a file's bytes.
type ArtifactState struct {
	ID    string `json:"id"`
	State string `json:"state"` // finished or error
}

// UpdateArtifacts reports what became of the bytes of artifacts.
func (c *Client) UpdateArtifacts(ctx context.Context, jobID string, states []ArtifactState) error {
	body := struct {
		Artifacts []ArtifactState `json:"artifacts"`
	}{states}
	return c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "artifacts"), body: body, deadline: true,
		retry: retry{tries: 10, wait: growing(time.Second, 5*time.Second), again: always}})
}

// An ArtifactQuery says which artifacts of a build are meant.
type ArtifactQuery struct {
	Glob           string // of paths
	Scope          string // a step's key or name, or a job's id; "" for all
	State          string
	IncludeRetried bool // artifacts of jobs that were retried too
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
