package clusterpages

import (
	"net/http"
	"net/url"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/route"
)

func (s *Site) tokenRoutes() []route.Route {
	const all = "/clusters/{cluster}/tokens"
	return []route.Route{
		s.get(all, pages.On(s.within, s.tokens)),
		s.post(all, pages.OnForm(s.within, s.createToken)),
		s.post(all+"/{token}/revoke", s.revokeToken),
	}
}

// A token is an agent token in a response.
type token struct {
	ID          string     `json:"id"`
	Description string     `json:"description"`
	Addresses   *string    `json:"allowed_ip_addresses"`
	ExpiresAt   *time.Time `json:"expires_at"`
	CreatedAt   *time.Time `json:"created_at"`
	CreatedBy   *person    `json:"created_by"`
	Token       string     `json:"token"` // only in the response that creates it
}

func (s *Site) tokenForm(in inCluster) pages.Form {
	return pages.Form{ID: "new", Action: in.At("tokens"), Submit: "Create agent token", Fields: []pages.Field{
		{Name: "description", Label: "Description", Required: true, Placeholder: "Build machines in the office"},
		{Name: "allowed_ip_addresses", Label: "Allowed addresses", Null: true, Placeholder: "192.0.2.0/24 198.51.100.7", Hint: "Address blocks from which agents can use it, separated by spaces; empty: all."},
	}}
}

func (s *Site) tokens(v *pages.Visit, in inCluster) error {
	return s.showTokens(v, http.StatusOK, in, s.tokenForm(in))
}

func (s *Site) showTokens(v *pages.Visit, status int, in inCluster, form pages.Form) error {
	list, links, err := pages.ListOf[token](v, v.API("clusters", in.Cluster.ID, "tokens"))
	if err != nil {
		return err
	}
	return in.show(v, status, "agent_tokens", "tokens", "Agent tokens", struct {
		inCluster
		Tokens []token
		Pages  []pages.PageLink
		New    pages.Form
	}{in, list, links, form})
}

func (s *Site) createToken(v *pages.Visit, in inCluster, values url.Values) error {
	var made token
	refused := func(f pages.Form) error { return s.showTokens(v, http.StatusUnprocessableEntity, in, f) }
	return v.Send(s.tokenForm(in), values, "POST", v.API("clusters", in.Cluster.ID, "tokens"), &made, refused, func() error {
		return in.show(v, http.StatusCreated, "secret", "tokens", "New agent token", pages.Secret{
			Of: made.Description, Value: made.Token, Use: AgentCommand(s.Site, made.Token, ""), Back: in.At("tokens"), BackTo: "Agent tokens",
		})
	})
}

func (s *Site) revokeToken(v *pages.Visit) error {
	id := v.PathValue("cluster")
	return v.Act("DELETE", v.API("clusters", id, "tokens", v.PathValue("token")), nil, v.Place("clusters", id, "tokens"), "Agent token revoked.")
}
