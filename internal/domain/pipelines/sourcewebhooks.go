package pipelines

import (
	"slices"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

// sourceWebhooksView shows whether webhooks of the source host are processed.
type sourceWebhooksView struct {
	URL        string    `json:"url"`
	Enabled    bool      `json:"enabled"`
	DisabledAt core.Time `json:"disabled_at"`
	DisabledBy *string   `json:"disabled_by" doc:"The name of the user who disabled it."`
}

// loadSourceWebhooks returns the pipeline in the path if its webhooks can be enabled and disabled: it builds
// from GitHub, in an organization with expanded webhook triggers.
func (s *Service) loadSourceWebhooks(r *route.Request) (*Pipeline, error) {
	p, err := s.Load(r)
	if err != nil {
		return nil, err
	}
	if !r.Org.Features.ExpandedWebhookTriggers || !slices.Contains(githubProviders, p.Provider) {
		return nil, core.Errorf(core.NotFound, "Not Found: webhook processing can be switched only for pipelines that build from GitHub, in organizations with expanded webhook triggers")
	}
	return p, nil
}

func (s *Service) getSourceWebhooks(r *route.Request, p *Pipeline) (sourceWebhooksView, error) {
	return s.sourceWebhooksView(r, p), nil
}

func (s *Service) putSourceWebhooks(r *route.Request, p *Pipeline) (sourceWebhooksView, error) {
	return s.switchSourceWebhooks(r, p, func(w *SourceWebhooks) { *w = SourceWebhooks{} })
}

// deleteSourceWebhooks disables the processing. If it is disabled already, the first user and time are kept.
func (s *Service) deleteSourceWebhooks(r *route.Request, p *Pipeline) (sourceWebhooksView, error) {
	return s.switchSourceWebhooks(r, p, func(w *SourceWebhooks) {
		if w.Enabled() {
			*w = SourceWebhooks{DisabledAt: s.clock(), DisabledBy: r.Caller.User.Name}
		}
	})
}

func (s *Service) switchSourceWebhooks(r *route.Request, p *Pipeline, fn func(*SourceWebhooks)) (sourceWebhooksView, error) {
	p, err := s.change(r.Context(), ViewerOf(r), p.ID, func(p *Pipeline) error {
		if err := p.Mutable(); err != nil {
			return err
		}
		fn(&p.SourceWebhooks)
		return nil
	})
	if err != nil {
		return sourceWebhooksView{}, err
	}
	return s.sourceWebhooksView(r, p), nil
}

func (s *Service) sourceWebhooksView(r *route.Request, p *Pipeline) sourceWebhooksView {
	return sourceWebhooksView{
		URL:        s.public.Org(r.Org.Slug, "pipelines", p.Slug, "source-webhooks"),
		Enabled:    p.SourceWebhooks.Enabled(),
		DisabledAt: core.At(p.SourceWebhooks.DisabledAt),
		DisabledBy: core.OrNull(p.SourceWebhooks.DisabledBy),
	}
}
