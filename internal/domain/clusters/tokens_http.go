package clusters

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

func (s *Service) tokenRoutes() []route.Route {
	const path = "/v2/organizations/{org}/clusters/{cluster}/tokens"
	load := resourceLoader(s, "token", noToken, tokenByID)
	update := route.Route{
		Method: http.MethodPatch, Path: path + "/{token}", Tag: "Agent tokens", Summary: "Update an agent token",
		Description: "Changes only the fields in the body. When a token expires is never changed. Connected agents whose address is no longer allowed finish their jobs and stop.",
		Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
		Handler: route.OnBody(load, s.patchToken),
	}
	return []route.Route{
		{
			Method: http.MethodGet, Path: path, Tag: "Agent tokens", Summary: "List the agent tokens of a cluster",
			Scope:   identity.ReadClusters,
			Query:   route.PageParams,
			Handler: route.On(s.load, s.listTokens),
		},
		{
			Method: http.MethodPost, Path: path, Tag: "Agent tokens", Summary: "Create an agent token",
			Description: "The token itself is in this response and in no other.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Status:  http.StatusCreated,
			Handler: route.OnBody(s.load, s.postToken),
		},
		{
			Method: http.MethodGet, Path: path + "/{token}", Tag: "Agent tokens", Summary: "Get an agent token",
			Scope:   identity.ReadClusters,
			Handler: route.On(load, s.getToken),
		},
		update,
		asPut(update),
		{
			Method: http.MethodDelete, Path: path + "/{token}", Tag: "Agent tokens", Summary: "Revoke an agent token",
			Description: "New agents can no longer register with it. Connected agents are not affected.",
			Scope:       identity.WriteClusters, Permission: identity.ManageClusters,
			Status:  http.StatusNoContent,
			Handler: route.On(load, s.deleteToken),
		},
		{
			Method: http.MethodGet, Path: "/v3/token", Tag: "Agent tokens", Summary: "Show what the presented agent token is for",
			Auth:    route.Agent,
			Handler: route.Do(identifyToken),
		},
	}
}

type agentTokenView struct {
	ID               string             `json:"id"`
	GraphQLID        string             `json:"graphql_id"`
	Description      string             `json:"description"`
	AllowedAddresses *string            `json:"allowed_ip_addresses" doc:"Address blocks with spaces between them; null: any address."`
	ExpiresAt        core.Time          `json:"expires_at"`
	URL              string             `json:"url"`
	ClusterURL       string             `json:"cluster_url"`
	CreatedAt        core.Time          `json:"created_at"`
	CreatedBy        *identity.UserView `json:"created_by"`
	Token            string             `json:"token,omitempty" doc:"The token itself, when it was just created."`
}

func (s *Service) viewToken(r *route.Request, t AgentToken) agentTokenView {
	return agentTokenView{
		ID:               t.ID,
		GraphQLID:        core.GraphQLID("ClusterToken", t.ID),
		Description:      t.Description,
		AllowedAddresses: core.OrNull(joinBlocks(t.AllowedAddresses)),
		ExpiresAt:        core.At(t.ExpiresAt),
		URL:              s.url(r, t.ClusterID, "tokens", t.ID),
		ClusterURL:       s.url(r, t.ClusterID),
		CreatedAt:        core.At(t.CreatedAt),
		CreatedBy:        t.CreatedBy.View(s.public),
	}
}

func joinBlocks(blocks []netip.Prefix) string {
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.String()
	}
	return strings.Join(texts, " ")
}

func splitBlocks(text string, problems *core.Problems) []netip.Prefix {
	var blocks []netip.Prefix
	for word := range strings.FieldsSeq(text) {
		block, ok := parseBlock(word)
		if !ok {
			problems.Add("allowed_ip_addresses", "must be address blocks with spaces between them, such as 10.1.0.0/16 2001:db8::/32; %q is not one", word)
			continue
		}
		blocks = append(blocks, block)
	}
	return blocks
}

func (s *Service) listTokens(r *route.Request, c maintained) (route.Paged[agentTokenView], error) {
	return listResources(s, r, c, listTokens, s.viewToken)
}

func (s *Service) getToken(r *route.Request, p resource[AgentToken]) (agentTokenView, error) {
	return s.viewToken(r, p.item), nil
}

type agentTokenCreate struct {
	Description      route.Opt[string] `json:"description"`
	ExpiresAt        route.Opt[string] `json:"expires_at" doc:"At least ten minutes ahead; absent: never."`
	AllowedAddresses route.Opt[string] `json:"allowed_ip_addresses" doc:"Up to 24 address blocks with spaces between them; absent: any address."`
}

func (s *Service) postToken(r *route.Request, c maintained, body agentTokenCreate) (agentTokenView, error) {
	var problems core.Problems
	t := AgentToken{
		ID:               core.NewID(),
		ClusterID:        c.ID,
		Description:      body.Description.Value,
		AllowedAddresses: splitBlocks(body.AllowedAddresses.Value, &problems),
		CreatedBy:        &r.Caller.User,
		CreatedAt:        s.clock(),
	}
	t.check(&problems)
	if end := body.ExpiresAt.Value; end != "" {
		t.ExpiresAt = tokenExpiry(end, t.CreatedAt, &problems)
	}
	if err := problems.Err(); err != nil {
		return agentTokenView{}, err
	}
	created, value, err := s.createToken(r.Context(), c.Cluster, t)
	v := s.viewToken(r, created)
	v.Token = value
	return v, err
}

// tokenExpiry parses the expiry of a new token.
func tokenExpiry(text string, now time.Time, problems *core.Problems) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		problems.Add("expires_at", "must be a time such as 2030-01-02T03:04:05Z")
	case t.Before(now.Add(minTokenLife)):
		problems.Add("expires_at", "must be at least %d minutes from now", minTokenLife/time.Minute)
	}
	return truncateExpiry(t)
}

type agentTokenUpdate struct {
	Description      route.Opt[string] `json:"description"`
	AllowedAddresses route.Opt[string] `json:"allowed_ip_addresses" doc:"Address blocks with spaces between them; null: any address."`
	ExpiresAt        route.Opt[string] `json:"expires_at" doc:"Cannot be changed; the same time is accepted."`
}

func (s *Service) patchToken(r *route.Request, p resource[AgentToken], body agentTokenUpdate) (agentTokenView, error) {
	changed, err := s.changeToken(r.Context(), p, func(t *AgentToken) error {
		var problems core.Problems
		body.Description.To(&t.Description)
		if body.AllowedAddresses.Set {
			t.AllowedAddresses = splitBlocks(body.AllowedAddresses.Value, &problems)
		}
		t.check(&problems)
		if body.ExpiresAt.Set && !t.expiresAt(body.ExpiresAt.Value) {
			problems.Add("expires_at", "cannot be changed once the token exists")
		}
		return problems.Err()
	})
	return s.viewToken(r, changed), err
}

// expiresAt reports whether text is the token's expiry.
func (t *AgentToken) expiresAt(text string) bool {
	if text == "" {
		return t.ExpiresAt.IsZero()
	}
	sent, err := time.Parse(time.RFC3339, text)
	return err == nil && truncateExpiry(sent).Equal(t.ExpiresAt)
}

func (s *Service) deleteToken(r *route.Request, p resource[AgentToken]) (route.Nothing, error) {
	return route.Nothing{}, s.revokeToken(r.Context(), p)
}

// tokenIdentityView is the organization, cluster and queue of an agent token, for tools. Clients decode the fields about an
// organization's queue as strings; they are empty because all queues are in clusters.
type tokenIdentityView struct {
	UUID             string `json:"uuid"`
	Description      string `json:"description"`
	TokenType        string `json:"token_type"`
	OrganizationSlug string `json:"organization_slug"`
	OrganizationUUID string `json:"organization_uuid"`
	ClusterUUID      string `json:"cluster_uuid"`
	ClusterName      string `json:"cluster_name"`
	QueueUUID        string `json:"organization_queue_uuid" doc:"Always empty."`
	QueueKey         string `json:"organization_queue_key" doc:"Always empty."`
}

func identifyToken(r *route.Request) (tokenIdentityView, error) {
	return tokenIdentityView{
		UUID:             r.Agent.ID,
		Description:      r.Agent.Description,
		TokenType:        "cluster",
		OrganizationSlug: r.Org.Slug,
		OrganizationUUID: r.Org.ID,
		ClusterUUID:      r.Agent.ClusterID,
		ClusterName:      r.Agent.ClusterName,
	}, nil
}
