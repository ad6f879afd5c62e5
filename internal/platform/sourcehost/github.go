package sourcehost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// GitHubAPI returns the URL of the REST API of a GitHub host: the public one, or an Enterprise server.
func GitHubAPI(host string) string {
	if host == "github.com" {
		return "https://api.github.com"
	}
	return "https://" + host + "/api/v3"
}

// GitHub is the source host github.com or a GitHub Enterprise server.
type GitHub struct {
	apiURL string
	token  string
	client *http.Client
}

// NewGitHub returns the host whose REST API is at apiURL. The token must be allowed to manage webhooks of the
// repositories.
func NewGitHub(apiURL, token string, client *http.Client) *GitHub {
	return &GitHub{apiURL: strings.TrimSuffix(apiURL, "/"), token: token, client: client}
}

// githubEvents are the events that can start builds: pushes of branches and tags, pull requests, merge queues
// and deployments; and created and deleted branches.
var githubEvents = []string{"push", "pull_request", "merge_group", "deployment", "create", "delete"}

// githubName is the syntax of owners and repositories, which keeps unusual paths out of API URLs.
var githubName = regexp.MustCompile(`^\.?[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// CreateWebhook implements [Host].
func (g *GitHub) CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error {
	if !githubName.MatchString(repo.Owner) || !githubName.MatchString(repo.Name) {
		return fmt.Errorf("%w: %q is not the path of a repository on GitHub, which is owner/name", ErrRefused, repo.Path)
	}
	req, err := g.newHookRequest(ctx, repo, hook)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		if requestErr, ok := errors.AsType[*url.Error](err); ok {
			err = requestErr.Err // the URL of the request does not help a person
		}
		return fmt.Errorf("%w: no answer from %s: %w", ErrUnavailable, req.URL.Host, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		return nil
	}
	return refusal(resp, repo)
}

func (g *GitHub) newHookRequest(ctx context.Context, repo Repository, hook Webhook) (*http.Request, error) {
	type config struct {
		URL         string `json:"url"`
		ContentType string `json:"content_type"`
		Secret      string `json:"secret,omitempty"`
		InsecureSSL string `json:"insecure_ssl"`
	}
	body, err := json.Marshal(struct {
		Name   string   `json:"name"`
		Active bool     `json:"active"`
		Events []string `json:"events"`
		Config config   `json:"config"`
	}{"web", true, githubEvents, config{hook.URL, "json", hook.Secret, "0"}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.apiURL+"/repos/"+repo.Owner+"/"+repo.Name+"/hooks", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "stackyard") // GitHub requires one
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	return req, nil
}

// refusal turns a response other than 201 into an error that says what to do.
func refusal(resp *http.Response, repo Repository) error {
	said := readProblem(resp.Body)
	if wait, limited := rateLimited(resp); limited {
		return fmt.Errorf("%w: its rate limit is used up; try again %s", ErrUnavailable, wait)
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: it does not accept the token; give a valid one", ErrRefused)
	case http.StatusForbidden:
		return fmt.Errorf("%w: the token may not manage webhooks of %s (%s)", ErrRefused, repo.Path, said)
	case http.StatusNotFound:
		// GitHub also returns this when the token can see the repository and lacks the permission.
		return fmt.Errorf("%w: there is no repository %s, or the token may not manage its webhooks", ErrRefused, repo.Path)
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return fmt.Errorf("%w: the repository %s has moved; correct its URL", ErrRefused, repo.Path)
	case http.StatusUnprocessableEntity:
		if said.has("already exists") {
			return ErrExists
		}
		return fmt.Errorf("%w: %s", ErrRefused, said)
	}
	return fmt.Errorf("%w: it answered with status %d (%s)", ErrUnavailable, resp.StatusCode, said)
}

// rateLimited reports whether a response is about too many requests, for which GitHub has several forms, and
// when to retry.
func rateLimited(resp *http.Response) (wait string, limited bool) {
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	usedUp := resp.Header.Get("X-RateLimit-Remaining") == "0"
	switch {
	case resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusForbidden:
		return "", false
	case seconds > 0:
		return fmt.Sprintf("in %d seconds", seconds), true
	case usedUp:
		reset, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64)
		if err != nil {
			return "later", true
		}
		return "after " + time.Unix(reset, 0).UTC().Format("15:04:05 UTC"), true
	}
	return "later", resp.StatusCode == http.StatusTooManyRequests
}

// problem is the body of GitHub's error responses.
type problem struct {
	Message string `json:"message"`
	Errors  []struct {
		Message string `json:"message"`
	} `json:"errors"`
}

// readProblem reads as much as an error needs. Unreadable parts stay empty: the status has the essential
// information.
func readProblem(body io.Reader) problem {
	var p problem
	content, _ := io.ReadAll(io.LimitReader(body, 64<<10))
	json.Unmarshal(content, &p)
	return p
}

func (p problem) has(words string) bool { return strings.Contains(p.String(), words) }

// String joins the messages of the host, cut to fit in a message.
func (p problem) String() string {
	s := p.Message
	for _, e := range p.Errors {
		if e.Message != "" {
			s += ": " + e.Message
		}
	}
	if s == "" {
		return "without a reason"
	}
	const most = 300
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
