package sourcehost

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
)

// bitbucket is Bitbucket Cloud.
type bitbucket struct{ api api }

// newBitbucket takes an access token, or user:password with an app password or an API token.
func newBitbucket(apiURL, token string, client *http.Client) *bitbucket {
	authorization := "Bearer " + token
	if strings.Contains(token, ":") {
		authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(token))
	}
	return &bitbucket{newAPI(apiURL, client, map[string]string{"Authorization": authorization, "Accept": "application/json"})}
}

// CreateWebhook implements [Host].
func (b *bitbucket) CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error {
	if err := checkPath(repo, "Bitbucket"); err != nil {
		return err
	}
	return b.api.call(ctx, manageWebhooks, repo, http.MethodPost, "/repositories/"+repo.Owner+"/"+repo.Name+"/hooks", map[string]any{
		"description": "Stackyard", "url": hook.URL, "secret": hook.Secret, "active": true,
		"events": []string{"repo:push", "pullrequest:created", "pullrequest:updated"},
	})
}

// bitbucketStates maps states to those of Bitbucket Cloud and Server.
var bitbucketStates = map[State]string{
	StatePending: "INPROGRESS", StateRunning: "INPROGRESS", StateBlocked: "INPROGRESS",
	StatePassed: "SUCCESSFUL", StateFailed: "FAILED", StateCanceled: "FAILED",
}

// bitbucketStatus is the body of a request that sets a status on Bitbucket Cloud and Server.
type bitbucketStatus struct {
	Key         string `json:"key"`
	State       string `json:"state"`
	Name        string `json:"name"`
	URL         string `json:"url"`
	Description string `json:"description"`
}

func newBitbucketStatus(s Status, longestKey int) bitbucketStatus {
	return bitbucketStatus{shortKey(s.Context, longestKey), bitbucketStates[s.State], shorten(s.Context, 255), s.URL, shorten(s.Description, 255)}
}

// SetStatus implements [Host]. Keys have at most 40 characters.
func (b *bitbucket) SetStatus(ctx context.Context, repo Repository, status Status) error {
	if err := checkStatus(repo, "Bitbucket", status); err != nil {
		return err
	}
	return b.api.call(ctx, setStatuses, repo, http.MethodPost, "/repositories/"+repo.Owner+"/"+repo.Name+"/commit/"+status.Commit+"/statuses/build",
		newBitbucketStatus(status, 40))
}

// Check implements [Host].
func (b *bitbucket) Check(ctx context.Context) error { return b.api.check(ctx, "/user") }
