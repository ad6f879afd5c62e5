package stackctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"stackyard/internal/clients/sleep"
)

// An API calls the stacks API of one server with one agent token.
type API struct {
	// Endpoint is the server's agent URL, ending with /v3.
	Endpoint string
	// Token is the cluster's agent token.
	Token string
	// Retried, if not nil, is called before each retry.
	Retried func(err error)
}

// A Refusal is a response that is not a success.
type Refusal struct {
	Status  int
	Message string `json:"message"`

	retryAfter time.Duration
}

func (r *Refusal) Error() string { return r.Message }

// Retries after network errors, 429 and 5xx, with bounded exponential backoff or the server's Retry-After.
const (
	tries       = 8
	firstWait   = 500 * time.Millisecond
	longestWait = 30 * time.Second
	// callTimeout limits one attempt. A long poll returns within half of it.
	callTimeout = time.Minute
	maxAnswer   = 64 << 20
)

// call makes a call until it succeeds, is refused, or has failed too often.
func (a *API) call(ctx context.Context, method, path string, body, answer any) error {
	for n := 1; ; n++ {
		err := a.try(ctx, method, path, body, answer)
		refusal, refused := errors.AsType[*Refusal](err)
		final := refused && refusal.Status != http.StatusTooManyRequests && refusal.Status < 500
		if err == nil || final || n == tries || ctx.Err() != nil {
			return err
		}
		if a.Retried != nil {
			a.Retried(err)
		}
		wait := backoff(n)
		if refused && refusal.retryAfter > 0 {
			wait = min(refusal.retryAfter, longestWait)
		}
		if !sleep.For(ctx, wait) {
			return err
		}
	}
}

// backoff returns the delay after a number of failures: doubled each time, with a jitter of a half, so that
// many stacks do not return at the same moment.
func backoff(failures int) time.Duration {
	d := min(firstWait<<min(failures-1, 10), longestWait)
	return d/2 + rand.N(d)
}

func (a *API) try(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.Endpoint+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Token "+a.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("reach the server: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read response: %w", err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		refusal := &Refusal{Status: res.StatusCode}
		if json.Unmarshal(text, refusal) != nil || refusal.Message == "" {
			refusal.Message = "the server returned " + res.Status
		}
		if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
			refusal.retryAfter = time.Duration(seconds) * time.Second
		}
		return refusal
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("decode response: %w", err)
	}
	return nil
}

// Registration describes a stack.
type Registration struct {
	Key      string            `json:"key"`
	Type     string            `json:"type"`
	QueueKey string            `json:"queue_key"`
	Metadata map[string]string `json:"metadata"`
}

// Register registers or updates a stack.
func (a *API) Register(ctx context.Context, r Registration) error {
	return a.call(ctx, http.MethodPost, "/stacks/register", r, nil)
}

// Deregister de-registers a stack.
func (a *API) Deregister(ctx context.Context, key string) error {
	return a.call(ctx, http.MethodPost, "/stacks/"+url.PathEscape(key)+"/deregister", nil, nil)
}

// A ScheduledJob is a job that waits for an agent.
type ScheduledJob struct {
	ID       string   `json:"id"`
	Priority int      `json:"priority"`
	Rules    []string `json:"agent_query_rules"`
	Pipeline struct {
		Slug string `json:"slug"`
	} `json:"pipeline"`
	Build struct {
		Number int `json:"number"`
	} `json:"build"`
}

// Scheduled is a page of a queue's scheduled jobs.
type Scheduled struct {
	Jobs []ScheduledJob `json:"jobs"`
	Page struct {
		More bool   `json:"has_next_page"`
		End  string `json:"end_cursor"`
	} `json:"page_info"`
	Queue struct {
		Paused bool `json:"dispatch_paused"`
	} `json:"cluster_queue"`
}

// ScheduledJobs lists scheduled jobs of a queue, oldest first, from the start or after a cursor. Servers that
// support it hold an empty response for up to wait.
func (a *API) ScheduledJobs(ctx context.Context, key, queue, after string, limit int, wait time.Duration) (Scheduled, error) {
	query := url.Values{"queue_key": {queue}, "limit": {strconv.Itoa(limit)}}
	if after != "" {
		query.Set("after", after)
	}
	if wait > 0 {
		query.Set("wait", strconv.Itoa(int(wait.Seconds())))
	}
	var page Scheduled
	return page, a.call(ctx, http.MethodGet, "/stacks/"+url.PathEscape(key)+"/scheduled-jobs?"+query.Encode(), nil, &page)
}

// Reserve reserves jobs or extends their reservations. It returns the jobs that are reserved now.
func (a *API) Reserve(ctx context.Context, key string, jobIDs []string, expiry time.Duration) ([]string, error) {
	var answer struct {
		Reserved []string `json:"reserved"`
	}
	return answer.Reserved, a.call(ctx, http.MethodPut, "/stacks/"+url.PathEscape(key)+"/scheduled-jobs/batch-reserve", map[string]any{
		"job_uuids": jobIDs, "reservation_expiry_seconds": int(expiry.Seconds()),
	}, &answer)
}

// Tokens returns job acquisition tokens for reserved jobs, by job.
func (a *API) Tokens(ctx context.Context, key string, jobIDs []string, lifetime time.Duration) (map[string]string, error) {
	var answer struct {
		Tokens []struct {
			JobID string `json:"job_uuid"`
			Token string `json:"job_acquisition_token"`
		} `json:"job_acquisition_tokens"`
	}
	err := a.call(ctx, http.MethodPost, "/stacks/"+url.PathEscape(key)+"/job-acquisition-tokens", map[string]any{
		"job_uuids": jobIDs, "token_lifetime_seconds": int(lifetime.Seconds()),
	}, &answer)
	tokens := make(map[string]string, len(answer.Tokens))
	for _, t := range answer.Tokens {
		tokens[t.JobID] = t.Token
	}
	return tokens, err
}

// A Job is what a job runs.
type Job struct {
	Env     map[string]string `json:"env"`
	Command string            `json:"command"`
}

// Job returns a reserved job.
func (a *API) Job(ctx context.Context, key, jobID string) (Job, error) {
	var job Job
	return job, a.call(ctx, http.MethodGet, "/stacks/"+url.PathEscape(key)+"/jobs/"+url.PathEscape(jobID), nil, &job)
}

// States returns the states of jobs, by job.
func (a *API) States(ctx context.Context, key string, jobIDs []string) (map[string]string, error) {
	var answer struct {
		States map[string]string `json:"states"`
	}
	return answer.States, a.call(ctx, http.MethodPost, "/stacks/"+url.PathEscape(key)+"/jobs/get-states", map[string]any{"job_uuids": jobIDs}, &answer)
}

// maxDetail is the maximum size of a finished job's detail in bytes.
const maxDetail = 4096

// Finish ends a job that the stack cannot run.
func (a *API) Finish(ctx context.Context, key, jobID, detail string) error {
	return a.call(ctx, http.MethodPost, "/stacks/"+url.PathEscape(key)+"/jobs/"+url.PathEscape(jobID)+"/finish", map[string]any{
		"exit_status": -1, "detail": cut(detail, maxDetail),
	}, nil)
}

// A Notification describes the progress of a job, for people.
type Notification struct {
	JobID  string `json:"job_uuid"`
	Detail string `json:"detail"`
}

// Notify sends notifications, best effort.
func (a *API) Notify(ctx context.Context, key string, list []Notification) error {
	return a.call(ctx, http.MethodPost, "/stacks/"+url.PathEscape(key)+"/notifications", map[string]any{"notifications": list}, nil)
}

// cut shortens a text to a number of bytes, without splitting a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most]
}
