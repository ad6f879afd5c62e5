package pipelines

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/sourcehost"
)

// webhookTimeout limits the time in which a source host must create a webhook.
const webhookTimeout = 20 * time.Second

var errUnsupportedWebhook = core.Errorf(core.Unprocessable,
	"Auto-creating webhooks is not supported for this repository; connect its host to the organization first")

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
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	host, repo, err := s.connections.HostFor(ctx, p.OrganizationID, p.Repository)
	if core.KindOf(err) == core.NotFound {
		return errUnsupportedWebhook
	}
	if err == nil {
		err = host.CreateWebhook(ctx, repo, sourcehost.Webhook{URL: s.WebhookURL(p), Secret: s.WebhookSecret(p)})
	}
	if errors.Is(err, sourcehost.ErrExists) || errors.Is(err, sourcehost.ErrRefused) || errors.Is(err, sourcehost.ErrUnavailable) {
		return core.Errorf(core.Unprocessable, "Webhooks could not be created for this repository: %s", err)
	}
	return err
}
