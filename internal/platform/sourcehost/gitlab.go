package sourcehost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// gitlab is gitlab.com or another GitLab.
type gitlab struct{ api api }

func newGitLab(apiURL, token string, client *http.Client) *gitlab {
	return &gitlab{newAPI(apiURL, client, map[string]string{"PRIVATE-TOKEN": token})}
}

// project returns the path of a project's resource. Projects can be in groups of groups.
func (g *gitlab) project(repo Repository, rest string) (string, error) {
	for _, segment := range strings.Split(repo.Path, "/") {
		if !pathSegment.MatchString(segment) || repo.Owner == "" {
			return "", fmt.Errorf("%w: %q is not the path of a project on GitLab, which is group/name", ErrRefused, repo.Path)
		}
	}
	return "/projects/" + url.PathEscape(repo.Path) + rest, nil
}

// CreateWebhook implements [Host]. GitLab accepts the same webhook twice; events of both have the same id and are
// built once.
func (g *gitlab) CreateWebhook(ctx context.Context, repo Repository, hook Webhook) error {
	path, err := g.project(repo, "/hooks")
	if err != nil {
		return err
	}
	return g.api.call(ctx, manageWebhooks, repo, http.MethodPost, path, map[string]any{
		"url": hook.URL, "token": hook.Secret,
		"push_events": true, "tag_push_events": true, "merge_requests_events": true, "enable_ssl_verification": true,
	})
}

var gitlabStates = map[State]string{
	StatePending: "pending", StateRunning: "running", StateBlocked: "pending",
	StatePassed: "success", StateFailed: "failed", StateCanceled: "canceled",
}

// SetStatus implements [Host].
func (g *gitlab) SetStatus(ctx context.Context, repo Repository, status Status) error {
	if !IsCommit(status.Commit) {
		return fmt.Errorf("%w: %q is not the id of a commit", ErrRefused, status.Commit)
	}
	path, err := g.project(repo, "/statuses/"+status.Commit)
	if err != nil {
		return err
	}
	err = g.api.call(ctx, setStatuses, repo, http.MethodPost, path, map[string]string{
		"state": gitlabStates[status.State], "name": shortKey(status.Context, 255), "target_url": status.URL, "description": shorten(status.Description, 255),
	})
	// It refuses to set the state that a status has.
	if errors.Is(err, ErrRefused) && strings.Contains(err.Error(), "Cannot transition status") {
		return nil
	}
	return err
}

// Check implements [Host].
func (g *gitlab) Check(ctx context.Context) error { return g.api.check(ctx, "/user") }
