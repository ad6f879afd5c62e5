package agents

import (
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// EventView returns an agent as notifications show it: without its job.
func (s *Service) EventView(org *identity.Organization, a *Agent) any {
	return s.view(&route.Request{Org: org}, a)
}

// ByID returns an agent of an organization, or a NotFound error.
func ByID(q *db.Q, orgID, id string) (*Agent, error) { return byID(q, orgID, id) }
