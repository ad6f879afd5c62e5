package pipelines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/sourcehost"
)

// webhookTimeout limits the time in which a source host must create a webhook.
const webhookTimeout = 20 * time.Second

var errUnsupportedWebhook = core.Errorf(core.Unprocessable,
	"Auto-creating webhooks is not supported for this repository; its host must be GitHub and connected to the organization")

// postWebhook makes the source host send the repository's events to the pipeline.
func (s *Service) postWebhook(r *route.Request, p *Pipeline) (pipelineView, error) {
	if err := p.Mutable(); err != nil {
		return pipelineView{}, err
	}
	if err := s.createWebhook(r.Context(), p); err != nil {
		return pipelineView{}, err
	}
	return s.view(r, p), nil
}

// createWebhook creates the webhook at the source host. It runs outside of transactions, because a host can be
// slow.
func (s *Service) createWebhook(ctx context.Context, p *Pipeline) error {
	repo, err := sourcehost.ParseRepository(p.Repository)
	if err != nil {
		return errUnsupportedWebhook
	}
	host, err := s.host(ctx, p.OrganizationID, repo.Host)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	err = host.CreateWebhook(ctx, repo, sourcehost.Webhook{URL: s.WebhookURL(p), Secret: s.WebhookSecret(p)})
	if errors.Is(err, sourcehost.ErrExists) || errors.Is(err, sourcehost.ErrRefused) || errors.Is(err, sourcehost.ErrUnavailable) {
		return core.Errorf(core.Unprocessable, "Webhooks could not be created for this repository: %s", err)
	}
	return err
}

// host returns the source host that an organization is connected to.
func (s *Service) host(ctx context.Context, organizationID, name string) (sourcehost.Host, error) {
	var c connection
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		c, err = connectionTo(q, organizationID, name)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil, errUnsupportedWebhook
	}
	if err != nil {
		return nil, err
	}
	token, err := s.key.Open(c.sealedToken, c.sealContext())
	if err != nil {
		return nil, fmt.Errorf("read the token of source connection %s: %w", c.id, err)
	}
	return sourcehost.NewGitHub(c.apiURL, string(token), s.client), nil
}
