package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"stackyard/internal/clients/runner/checkout"
	"stackyard/internal/clients/runner/usage"
)

// A Job is a job to run.
type Job struct {
	ID    string            `json:"id"`
	Env   map[string]string `json:"env"`
	Token string            `json:"token"` // for calls about this job; "" when the session's serves
	Step  Step              `json:"step"`
	// Matrix holds the values of a job of a matrix, by dimension.
	Matrix map[string]any `json:"matrix_permutation"`
	Debug  bool           `json:"debug"` // keep the environment for a while if the job fails

	ChunksMaxSize  int   `json:"chunks_max_size_bytes"`
	ChunksInterval int   `json:"chunks_interval_seconds"`
	LogMaxSize     int64 `json:"log_max_size_bytes"`
}

// A Step holds the attributes of a job's step that an agent reads. Everything else is in the environment.
type Step struct {
	Secrets   []StepSecret    `json:"secrets"`
	Signature json.RawMessage `json:"signature"`
	Image     json.RawMessage `json:"image"` // of the container that the command runs in
	Checkout  Checkout        `json:"checkout"`

	// Definition is the whole step as the server sent it, which signatures cover.
	Definition json.RawMessage `json:"-"`
}

// UnmarshalJSON decodes a step and keeps its definition.
func (s *Step) UnmarshalJSON(text []byte) error {
	type plain Step
	if err := json.Unmarshal(text, (*plain)(s)); err != nil {
		return err
	}
	s.Definition = slices.Clone(text)
	return nil
}

// Signed reports whether the step is signed.
func (s Step) Signed() bool { return len(s.Signature) > 0 && string(s.Signature) != "null" }

// ImageName returns the name of the step's image, or "". An image that is not a text is returned as JSON, which is no
// name.
func (s Step) ImageName() string {
	var name string
	if len(s.Image) == 0 || json.Unmarshal(s.Image, &name) == nil {
		return name
	}
	return string(s.Image)
}

// A Checkout is what a step says about its checkout. Its zero value, and anything that is not an object, says nothing.
type Checkout struct{ checkout.Step }

// UnmarshalJSON decodes an object.
func (c *Checkout) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &c.Step) != nil {
		c.Step = checkout.Step{}
	}
	return nil
}

// A StepSecret maps a secret to a variable.
type StepSecret struct {
	Key      string `json:"key"`
	Variable string `json:"environment_variable"`
}

// Accept accepts an offered job. Accepting twice is harmless, so every temporary failure is retried: the server
// may have assigned the job before the response got lost.
func (c *Client) Accept(ctx context.Context, jobID string) (*Job, error) {
	var job Job
	err := c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "accept"), answer: &job,
		retry: retry{tries: 30, wait: growing(time.Second, 5*time.Second), listen: true}})
	return &job, err
}

// backoffSequence is the header with the number of the attempt.
const backoffSequence = "X-Buildkite-Backoff-Sequence"

// Acquire acquires a specific job. It retries for a while if the job is not ready (423).
func (c *Client) Acquire(ctx context.Context, jobID string) (*Job, error) {
	ctx, cancel := context.WithTimeout(ctx, 330*time.Second)
	defer cancel()
	var job Job
	err := c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "acquire"), answer: &job, deadline: true,
		header: http.Header{"X-Buildkite-Lock-Acquire-Job": {"1"}, backoffSequence: {"0"}},
		retry: retry{tries: 7, wait: growing(time.Second, time.Minute), listen: true, again: func(e *Error) bool {
			return e.Temporary() || e.Status == http.StatusLocked
		}}})
	return &job, err
}

// Start reports that a job starts.
func (c *Client) Start(ctx context.Context, jobID string, at time.Time) error {
	body := struct {
		StartedAt time.Time `json:"started_at"`
	}{at.UTC()}
	return c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "start"), body: body,
		retry: retry{tries: 7, wait: growing(time.Second, time.Minute)}})
}

// State returns the server's state of a job. It is not retried, since it is polled anyway.
func (c *Client) State(ctx context.Context, jobID string) (string, error) {
	var answer struct {
		State string `json:"state"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: path("jobs", jobID), answer: &answer})
	return answer.State, err
}

// Update changes an attribute of a job.
func (c *Client) Update(ctx context.Context, jobID, attribute, value string) error {
	var answer struct{}
	return c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID), body: map[string]string{attribute: value}, answer: &answer, retry: insideJob})
}

// A Result is how a job ended.
type Result struct {
	ExitStatus   string    `json:"exit_status"`
	Signal       string    `json:"signal,omitempty"`
	SignalReason string    `json:"signal_reason,omitempty"`
	FinishedAt   time.Time `json:"finished_at"`
	FailedChunks int       `json:"chunks_failed_count"`
	// LastJob is set if the agent takes no further job.
	LastJob bool `json:"ignore_agent_in_dispatches,omitempty"`
}

// Finish reports how a job ended.
func (c *Client) Finish(ctx context.Context, jobID string, r Result) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "finish"), body: r, deadline: true, retry: tenMinutes})
}

// ReportUsage reports what a job used. It is not retried for long: a job must not wait for it.
func (c *Client) ReportUsage(ctx context.Context, jobID string, r usage.Report) error {
	return c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "usage"), body: r, deadline: true,
		retry: retry{tries: 3, wait: growing(time.Second, 2*time.Second)}})
}

// PromiseFailure declares that a running job will fail with an exit status.
func (c *Client) PromiseFailure(ctx context.Context, jobID string, exitStatus int, reason string) error {
	body := struct {
		ExitStatus int    `json:"exit_status"`
		Reason     string `json:"reason,omitempty"`
	}{exitStatus, reason}
	return c.do(ctx, call{method: http.MethodPut, path: path("jobs", jobID, "promise_failure"), body: body, retry: insideJob})
}

// A Chunk is a part of a job's log. Chunks may be sent in any order, and repeatedly.
type Chunk struct {
	Sequence int    // from 1
	Offset   int64  // in the log, in bytes
	Size     int    // in bytes, before compression
	Gzip     []byte // the bytes, compressed
}

// SendChunk sends a part of a job's log.
func (c *Client) SendChunk(ctx context.Context, jobID string, k Chunk) error {
	query := map[string][]string{
		"sequence": {strconv.Itoa(k.Sequence)},
		"offset":   {strconv.FormatInt(k.Offset, 10)},
		"size":     {strconv.Itoa(k.Size)},
	}
	return c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "chunks"), query: query, retry: tenMinutes,
		body: payload{contentType: "text/plain", contentEncoding: "gzip", bytes: k.Gzip}})
}
