package sourcehost

import (
	"context"
	"net/http"
)

// gitea is a Gitea or Forgejo server.
type gitea struct{ api api }

func newGitea(apiURL, token string, client *http.Client) *gitea {
	return &gitea{newAPI(apiURL, client, map[string]string{"Authorization": "token " + token, "Accept": "application/json"})}
}

// CreateWebhook implements [Host].
func (g *gitea) CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error {
	if err := checkPath(repo, "Gitea"); err != nil {
		return err
	}
	return g.api.call(ctx, manageWebhooks, repo, http.MethodPost, "/repos/"+repo.Owner+"/"+repo.Name+"/hooks", map[string]any{
		"type":   "gitea",
		"active": true,
		"events": []string{"push", "delete", "pull_request", "pull_request_sync", "pull_request_label"},
		"config": map[string]string{"url": hook.URL, "content_type": "json", "secret": hook.Secret},
	})
}

// SetStatus implements [Host].
func (g *gitea) SetStatus(ctx context.Context, repo Repository, status Status) error {
	if err := checkStatus(repo, "Gitea", status); err != nil {
		return err
	}
	return g.api.call(ctx, setStatuses, repo, http.MethodPost, "/repos/"+repo.Owner+"/"+repo.Name+"/statuses/"+status.Commit, newGitHubStatus(status))
}

// Check implements [Host].
func (g *gitea) Check(ctx context.Context) error { return g.api.check(ctx, "/user") }
