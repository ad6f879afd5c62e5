package organizations

import (
	"net/http"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) organizationRoutes() []route.Route {
	const tag = "Organizations"
	return []route.Route{
		{
			Method: http.MethodGet, Path: "/v2/organizations", Tag: tag,
			Summary: "List the organizations that the access token reaches",
			Scope:   identity.ReadOrganizations,
			Query:   route.PageParams,
			Handler: route.Do(s.list),
		},
		{
			Method: http.MethodGet, Path: organizationPath, Tag: tag,
			Summary: "Get an organization",
			Scope:   identity.ReadOrganizations,
			Handler: route.Do(s.get),
		},
		{
			Method: http.MethodGet, Path: organizationPath + "/rate_limit", Tag: tag,
			Summary:     "Get the caller's rate limit",
			Description: "Each user has a limit of their own in each organization. This request is counted too.",
			Scope:       identity.ReadOrganizations,
			Handler:     route.Do(s.getRateLimit),
		},
		{
			Method: http.MethodGet, Path: organizationPath + "/emojis", Tag: tag,
			Summary: "List the organization's own emojis",
			Scope:   route.NoScope,
			Handler: route.Do(s.listEmojis),
		},
		{
			Method: http.MethodGet, Path: "/v2/meta", Tag: tag,
			Summary: "Get facts about this server that need no token",
			Auth:    route.Open,
			Handler: route.Do(s.getMeta),
		},
	}
}

type organizationView struct {
	ID           string    `json:"id"`
	GraphQLID    string    `json:"graphql_id"`
	URL          string    `json:"url"`
	WebURL       string    `json:"web_url"`
	Name         string    `json:"name"`
	Slug         string    `json:"slug"`
	PipelinesURL string    `json:"pipelines_url"`
	AgentsURL    string    `json:"agents_url"`
	EmojisURL    string    `json:"emojis_url"`
	CreatedAt    core.Time `json:"created_at"`
}

func (s *Service) organizationView(o identity.Organization) organizationView {
	return organizationView{
		ID:           o.ID,
		GraphQLID:    core.GraphQLID("Organization", o.ID),
		URL:          s.public.Org(o.Slug),
		WebURL:       s.public.To(o.Slug),
		Name:         o.Name,
		Slug:         o.Slug,
		PipelinesURL: s.public.Org(o.Slug, "pipelines"),
		AgentsURL:    s.public.Org(o.Slug, "agents"),
		EmojisURL:    s.public.Org(o.Slug, "emojis"),
		CreatedAt:    core.At(o.CreatedAt),
	}
}

func (s *Service) list(r *route.Request) (route.Paged[organizationView], error) {
	return route.ReadPage(r, s.db, func(q *db.Q, limit, offset int) ([]identity.Organization, int, error) {
		return identity.OrganizationsByID(q, r.Caller.Organizations(), limit, offset)
	}, s.organizationView)
}

func (s *Service) get(r *route.Request) (organizationView, error) {
	return s.organizationView(*r.Org), nil
}

type rateLimitView struct {
	Scopes rateLimitScopesView `json:"scopes"`
}

type rateLimitScopesView struct {
	REST    rateLimitScopeView `json:"rest"`
	GraphQL rateLimitScopeView `json:"graphql" doc:"Never enforced: this server has no GraphQL API."`
}

type rateLimitScopeView struct {
	Limit    int       `json:"limit" doc:"Requests in one second; 0 when they are not limited."`
	Current  int       `json:"current" doc:"Requests within the last second, this one among them."`
	Reset    int       `json:"reset" doc:"Seconds until none of them counts any more."`
	ResetAt  core.Time `json:"reset_at"`
	Enforced bool      `json:"enforced"`
}

func (s *Service) getRateLimit(r *route.Request) (rateLimitView, error) {
	now := s.clock()
	return rateLimitView{Scopes: rateLimitScopesView{
		REST: rateLimitScopeView{
			Limit:    r.Usage.Limit,
			Current:  r.Usage.Current,
			Reset:    r.Usage.Reset,
			ResetAt:  core.At(now.Add(time.Duration(r.Usage.Reset) * time.Second)),
			Enforced: r.Usage.Limit > 0,
		},
		GraphQL: rateLimitScopeView{ResetAt: core.At(now)},
	}}, nil
}

type emojiView struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Aliases []string `json:"aliases"`
}

// listEmojis returns an empty list: organizations have no custom emojis, and clients know the standard ones.
func (s *Service) listEmojis(*route.Request) ([]emojiView, error) {
	return []emojiView{}, nil
}

type metaView struct {
	WebhookIPs []string `json:"webhook_ips" doc:"Address ranges that webhooks are sent from; empty when the server cannot know, since that is for its network to decide."`
}

func (s *Service) getMeta(*route.Request) (metaView, error) {
	return metaView{WebhookIPs: []string{}}, nil
}
