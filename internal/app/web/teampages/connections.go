package teampages

import (
	"net/http"
	"time"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

func (s *Site) connectionRoutes() []route.Route {
	return []route.Route{
		s.get("/settings/connections", s.connections),
		s.post("/settings/connections", s.createConnection),
		s.post("/settings/connections/{connection}/test", s.testConnection),
		s.post("/settings/connections/{connection}/delete", s.deleteConnection),
	}
}

// A connection is a connection to a source host in a response.
type connection struct {
	ID             string    `json:"id"`
	Host           string    `json:"host"`
	Provider       string    `json:"provider"`
	Authentication string    `json:"authentication"`
	CreatedAt      time.Time `json:"created_at"`
}

func (s *Site) connectionForm(v *pages.Visit) pages.Form {
	return pages.Form{ID: "new", Action: v.Place("settings", "connections"), Submit: "Connect", Fields: []pages.Field{
		{Name: "host", Label: "Host", Required: true, Placeholder: "github.com"},
		{Name: "provider", Label: "Kind", Kind: pages.SelectField, Null: true, Hint: "Hosts with well-known names need none.", Options: []pages.Option{
			{Value: "", Text: "From the name"}, {Value: "github", Text: "GitHub"}, {Value: "github_enterprise", Text: "GitHub Enterprise"}, {Value: "gitlab", Text: "GitLab"}, {Value: "gitlab_ee", Text: "GitLab, self-managed"},
			{Value: "bitbucket", Text: "Bitbucket"}, {Value: "bitbucket_server", Text: "Bitbucket Server"}, {Value: "gitea", Text: "Gitea"},
		}},
		{Name: "token", Label: "Token", Kind: pages.PasswordField, Null: true, Hint: "With access to repositories, webhooks and commit statuses. A GitHub App can be connected with the API."},
	}}
}

func (s *Site) connections(v *pages.Visit) error {
	return s.showConnections(v, http.StatusOK, s.connectionForm(v))
}

func (s *Site) showConnections(v *pages.Visit, status int, form pages.Form) error {
	shown := struct {
		Allowed     bool
		Connections []connection
		New         pages.Form
		At          string
	}{Allowed: true, New: form, At: v.Place("settings", "connections")}
	_, err := v.Call("GET", v.API("source-connections")+"?per_page=100", nil, &shown.Connections)
	switch {
	case core.KindOf(err) == core.Forbidden:
		shown.Allowed, status = false, http.StatusForbidden
	case err != nil:
		return err
	}
	return s.show(v, status, "connections", "connections", "Source hosts", shown)
}

func (s *Site) createConnection(v *pages.Visit) error {
	return v.Submit(s.connectionForm(v), "POST", v.API("source-connections"), v.Place("settings", "connections"), "Connected. Test it before you rely on it.", func(f pages.Form) error {
		return s.showConnections(v, http.StatusUnprocessableEntity, f)
	})
}

func (s *Site) testConnection(v *pages.Visit) error {
	var result struct {
		OK      bool   `json:"ok"`
		Message string `json:"message"`
	}
	_, err := v.Call("POST", v.API("source-connections", v.PathValue("connection"), "test"), nil, &result)
	if wrong, ok := pages.ProblemsOf(err); ok {
		return v.Refused(v.Place("settings", "connections"), wrong.Sentence())
	}
	if err != nil {
		return err
	}
	if !result.OK {
		return v.Refused(v.Place("settings", "connections"), result.Message)
	}
	return v.Done(v.Place("settings", "connections"), result.Message)
}

func (s *Site) deleteConnection(v *pages.Visit) error {
	return v.Act("DELETE", v.API("source-connections", v.PathValue("connection")), nil, v.Place("settings", "connections"), "Connection deleted.")
}
