package api

import (
	"context"
	"net/http"
	"net/url"
)

// An Annotation is a text on the page of a build or job. An existing annotation with the same context is
// replaced or appended to.
type Annotation struct {
	Body     string `json:"body,omitempty"` // "" changes the style alone
	Context  string `json:"context,omitempty"`
	Style    string `json:"style,omitempty"`
	Append   bool   `json:"append,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Scope    string `json:"scope,omitempty"` // build or job
}

// Annotate annotates the build of a job, or the job.
func (c *Client) Annotate(ctx context.Context, jobID string, a Annotation) error {
	return c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "annotations"), body: a, retry: insideJob})
}

// RemoveAnnotation removes the annotation with a context.
func (c *Client) RemoveAnnotation(ctx context.Context, jobID, annotation, scope string) error {
	var query url.Values
	if scope != "" {
		query = url.Values{"scope": {scope}}
	}
	return c.do(ctx, call{method: http.MethodDelete, path: path("jobs", jobID, "annotations", annotation), query: query, retry: insideJob})
}
