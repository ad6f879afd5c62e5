package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A PipelineUpload adds steps to the build of a job.
type PipelineUpload struct {
	ID       string          `json:"uuid"` // makes it safe to retry
	Replace  bool            `json:"replace,omitempty"`
	Pipeline json.RawMessage `json:"pipeline"`
}

// uploading is for uploads, which may take the server a while.
var uploading = retry{tries: 60, wait: growing(time.Second, 5*time.Second), listen: true}

// UploadPipeline uploads steps and waits until the server has applied or rejected them.
func (c *Client) UploadPipeline(ctx context.Context, jobID string, u PipelineUpload) error {
	later := false
	err := c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "pipelines"), query: map[string][]string{"async": {"true"}}, body: u, retry: uploading,
		received: func(resp *http.Response) {
			later = resp.StatusCode == http.StatusAccepted && strings.HasSuffix(resp.Header.Get("Location"), "/"+u.ID)
		}})
	if err != nil || !later {
		return err
	}
	return c.awaitUpload(ctx, jobID, u.ID)
}

// errPending means that an upload is neither applied nor rejected yet.
var errPending = errors.New("the upload is still being processed")

// awaitUpload polls until an upload is applied or rejected.
func (c *Client) awaitUpload(ctx context.Context, jobID, uploadID string) error {
	k := call{method: http.MethodGet, path: path("jobs", jobID, "pipelines", uploadID)}
	waiting := uploading
	waiting.again = func(e *Error) bool { return e.Status != http.StatusUnprocessableEntity }
	return waiting.run(ctx, func(try int) error {
		var answer struct {
			State   string `json:"state"`
			Message string `json:"message"`
		}
		k.answer = &answer
		if err := c.try(ctx, k, payload{}, try); err != nil {
			return err
		}
		switch answer.State {
		case "applied":
			return nil
		case "pending", "processing":
			return &Error{Call: k.name(), Status: http.StatusOK, Err: errPending}
		default:
			return fmt.Errorf("the upload was %s: %s", answer.State, answer.Message)
		}
	})
}
