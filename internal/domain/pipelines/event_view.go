package pipelines

import (
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// EventView returns a pipeline as notifications show it: without the secret URL for webhooks.
func (s *Service) EventView(org *identity.Organization, p *Pipeline) PipelineView {
	return PipelineView{s.view(&route.Request{Org: org, Caller: &identity.Caller{}}, p)}
}
