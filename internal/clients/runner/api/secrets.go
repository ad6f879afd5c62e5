package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Secret returns the value of a secret of the cluster.
func (c *Client) Secret(ctx context.Context, jobID, key string) (string, error) {
	var answer struct {
		Value string `json:"value"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: path("jobs", jobID, "secrets"), query: url.Values{"key": {key}}, answer: &answer,
		retry: retry{tries: 3, wait: growing(time.Second, 5*time.Second)}})
	return answer.Value, err
}

// An OIDCRequest describes an identity token.
type OIDCRequest struct {
	Audience       string   `json:"audience,omitempty"`
	Lifetime       int      `json:"lifetime,omitempty"` // in seconds
	Claims         []string `json:"claims,omitempty"`
	AWSSessionTags []string `json:"aws_session_tags,omitempty"`
	SubjectClaim   string   `json:"subject_claim,omitempty"`
}

// OIDCToken returns an identity token of a job, which other services can verify.
func (c *Client) OIDCToken(ctx context.Context, jobID string, r OIDCRequest) (string, error) {
	var answer struct {
		Token string `json:"token"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "oidc", "tokens"), body: r, answer: &answer, retry: insideJob})
	return answer.Token, err
}

// RepositoryToken returns a token to clone a job's repository over https. It is the password of the user
// "token".
func (c *Client) RepositoryToken(ctx context.Context, jobID, repository string) (string, error) {
	body := struct {
		RepoURL string `json:"repo_url"`
	}{repository}
	var answer struct {
		Token string `json:"token"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: path("jobs", jobID, "repository_access_token"), body: body, answer: &answer,
		retry: retry{tries: 5, wait: growing(time.Second, 5*time.Second), listen: true}})
	return answer.Token, err
}
