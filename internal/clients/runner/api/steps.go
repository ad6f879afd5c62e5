package api

import (
	"context"
	"net/http"
)

// Steps are identified by id, or by key within a build.

// ExportStep returns an attribute of a step, or the whole step when attribute is "", as text.
func (c *Client) ExportStep(ctx context.Context, step, buildID, attribute, format string) (string, error) {
	body := struct {
		Attribute string `json:"attribute,omitempty"`
		BuildID   string `json:"build_id,omitempty"`
		Format    string `json:"format,omitempty"`
	}{attribute, buildID, format}
	var answer struct {
		Output string `json:"output"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: path("steps", step, "export"), body: body, answer: &answer, retry: insideJob})
	return answer.Output, err
}

// A StepUpdate changes an attribute of a step.
type StepUpdate struct {
	ID        string `json:"idempotency_uuid"` // makes it safe to retry
	BuildID   string `json:"build_id,omitempty"`
	Attribute string `json:"attribute"`
	Value     string `json:"value"`
	Append    bool   `json:"append,omitempty"`
}

// UpdateStep changes an attribute of a step.
func (c *Client) UpdateStep(ctx context.Context, step string, u StepUpdate) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("steps", step), body: u, retry: insideJob})
}

// CancelStep cancels all jobs of a step that have not ended. With force, the server ends them after
// graceSeconds.
func (c *Client) CancelStep(ctx context.Context, step, buildID string, force bool, graceSeconds int) error {
	body := struct {
		BuildID string `json:"build_id"`
		Force   bool   `json:"force"`
		Grace   int    `json:"force_grace_period"`
	}{buildID, force, graceSeconds}
	var answer struct{}
	return c.do(ctx, call{method: http.MethodPost, path: path("steps", step, "cancel"), body: body, answer: &answer, retry: insideJob})
}

// CancelBuild cancels a build.
func (c *Client) CancelBuild(ctx context.Context, buildID string) error {
	var answer struct{}
	return c.do(ctx, call{method: http.MethodPost, path: path("builds", buildID, "cancel"), answer: &answer, retry: insideJob})
}
