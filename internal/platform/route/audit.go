package route

import (
	"net/http"

	"stackyard/internal/platform/audit"
)

// recorded reports whether changes that the route makes are recorded with their actor. Requests of agents that run
// jobs make none.
func (route *Route) recorded() bool {
	if route.Handler.visit != nil {
		return true
	}
	return route.Method != http.MethodGet && (route.Auth == Bearer || route.Auth == Open || route.Auth == Agent)
}

// AuditActor returns who makes the request, for the audit trail.
func (r *Request) AuditActor() audit.Actor {
	a := audit.Actor{Type: audit.Anonymous, Channel: audit.API, UserAgent: r.UserAgent()}
	if r.Address.IsValid() {
		a.Address = r.Address.String()
	}
	if seen, ok := r.w.(*observed); ok {
		a.RequestID = seen.id
	}
	if r.route.Handler.visit != nil {
		a.Channel = audit.Web
	}
	switch {
	case r.Caller != nil:
		a.Type, a.ID, a.Name, a.Email = audit.User, r.Caller.User.ID, r.Caller.User.Name, r.Caller.User.Email
		a.TokenID, a.TokenDescription = r.Caller.Token.ID, r.Caller.Token.Description
	case r.Agent != nil:
		a.Type, a.ID, a.Name, a.Channel = audit.AgentToken, r.Agent.ID, r.Agent.Description, audit.Agents
		a.TokenID, a.TokenDescription = r.Agent.ID, r.Agent.Description
	case r.Session != nil:
		a.Type, a.ID, a.Channel = audit.Agent, r.Session.AgentID, audit.Agents
	}
	return a
}
