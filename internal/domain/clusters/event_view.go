package clusters

import (
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// EventToken returns an agent token as notifications show it: without the token itself.
func (s *Service) EventToken(org *identity.Organization, t AgentToken) any {
	return s.viewToken(&route.Request{Org: org}, t)
}
