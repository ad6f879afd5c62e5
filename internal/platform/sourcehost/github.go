package sourcehost

import (
	"context"
	"net/http"
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
	api          api
	installation bool // the token belongs to an installation of an app
}

// NewGitHub returns the host whose REST API is at apiURL. The token must be allowed to manage webhooks and commit
// statuses of the repositories.
func NewGitHub(apiURL, token string, client *http.Client) *GitHub {
	return &GitHub{api: newAPI(apiURL, client, map[string]string{
		"Authorization":        "Bearer " + token,
		"Accept":               "application/vnd.github+json",
		"X-GitHub-Api-Version": "2022-11-28",
	})}
}

// githubEvents are the events that can start builds: pushes of branches and tags, pull requests, merge queues
// and deployments; and created and deleted branches.
var githubEvents = []string{"push", "pull_request", "merge_group", "deployment", "create", "delete"}

// CreateWebhook implements [Host].
func (g *GitHub) CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error {
	if err := checkPath(repo, "GitHub"); err != nil {
		return err
	}
	type config struct {
		URL         string `json:"url"`
		ContentType string `json:"content_type"`
		Secret      string `json:"secret,omitempty"`
		InsecureSSL string `json:"insecure_ssl"`
	}
	return g.api.call(ctx, manageWebhooks, repo, http.MethodPost, "/repos/"+repo.Owner+"/"+repo.Name+"/hooks", struct {
		Name   string   `json:"name"`
		Active bool     `json:"active"`
		Events []string `json:"events"`
		Config config   `json:"config"`
	}{"web", true, githubEvents, config{hook.URL, "json", hook.Secret, "0"}})
}

// githubStates maps states to those of GitHub, which are also Gitea's.
var githubStates = map[State]string{
	StatePending: "pending", StateRunning: "pending", StateBlocked: "pending",
	StatePassed: "success", StateFailed: "failure", StateCanceled: "error",
}

// githubStatus is the body of a request that sets a status on GitHub and Gitea.
type githubStatus struct {
	State       string `json:"state"`
	TargetURL   string `json:"target_url,omitempty"`
	Description string `json:"description"`
	Context     string `json:"context"`
}

func newGitHubStatus(s Status) githubStatus {
	return githubStatus{githubStates[s.State], s.URL, shorten(s.Description, 140), shortKey(s.Context, 255)}
}

// SetStatus implements [Host].
func (g *GitHub) SetStatus(ctx context.Context, repo Repository, status Status) error {
	if err := checkStatus(repo, "GitHub", status); err != nil {
		return err
	}
	return g.api.call(ctx, setStatuses, repo, http.MethodPost, "/repos/"+repo.Owner+"/"+repo.Name+"/statuses/"+status.Commit, newGitHubStatus(status))
}

// Check implements [Host].
func (g *GitHub) Check(ctx context.Context) error {
	if g.installation {
		return g.api.check(ctx, "/installation/repositories?per_page=1")
	}
	return g.api.check(ctx, "/user")
}
