package sourcehost

import (
	"context"
	"net/http"
	"strings"
)

// bitbucketServer is Bitbucket Data Center or Server.
type bitbucketServer struct{ api api }

func newBitbucketServer(apiURL, token string, client *http.Client) *bitbucketServer {
	return &bitbucketServer{newAPI(apiURL, client, map[string]string{"Authorization": "Bearer " + token, "Accept": "application/json"})}
}

// path returns the path of a repository's resource. Its https URLs have scm/ before the project.
func (b *bitbucketServer) path(repo Repository, rest string) (string, error) {
	repo.Owner = strings.TrimPrefix(repo.Owner, "scm/")
	return "/projects/" + repo.Owner + "/repos/" + repo.Name + rest, checkPath(repo, "Bitbucket")
}

// CreateWebhook implements [Host].
func (b *bitbucketServer) CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error {
	path, err := b.path(repo, "/webhooks")
	if err != nil {
		return err
	}
	return b.api.call(ctx, manageWebhooks, repo, http.MethodPost, path, map[string]any{
		"name": "Stackyard", "url": hook.URL, "active": true, "configuration": map[string]string{"secret": hook.Secret},
		"events": []string{"repo:refs_changed", "pr:opened", "pr:from_ref_updated"},
	})
}

// SetStatus implements [Host].
func (b *bitbucketServer) SetStatus(ctx context.Context, repo Repository, status Status) error {
	path, err := b.path(repo, "/commits/"+status.Commit+"/builds")
	if err != nil {
		return err
	}
	repo.Owner = strings.TrimPrefix(repo.Owner, "scm/")
	if err := checkStatus(repo, "Bitbucket", status); err != nil {
		return err
	}
	return b.api.call(ctx, setStatuses, repo, http.MethodPost, path, newBitbucketStatus(status, 255))
}

// Check implements [Host].
func (b *bitbucketServer) Check(ctx context.Context) error {
	return b.api.check(ctx, "/projects?limit=1")
}
