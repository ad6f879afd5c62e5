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
		s.post("/settings/connections/app", s.createApp),
		s.get("/settings/connections/{connection}", s.connection),
		s.post("/settings/connections/{connection}", s.changeConnection),
		s.post("/settings/connections/{connection}/test", s.testConnection),
		s.post("/settings/connections/{connection}/delete", s.deleteConnection),
	}
}

// With says how the connection authenticates.
func (c connection) With() string {
	if c.Authentication == "github_app" {
		return "With the GitHub App " + pages.Text(c.AppID)
	}
	if c.HasCloneToken {
		return "With a token, and a clone token for jobs"
	}
	return "With a token"
}

// A connection is a connection to a source host in a response.
type connection struct {
	ID             string    `json:"id"`
	Host           string    `json:"host"`
	Provider       string    `json:"provider"`
	APIURL         string    `json:"api_url"`
	Authentication string    `json:"authentication"`
	AppID          *string   `json:"app_id"`
	InstallationID *string   `json:"installation_id"`
	HasCloneToken  bool      `json:"has_clone_token"`
	CreatedAt      time.Time `json:"created_at"`
}

func (s *Site) connectionForm(v *pages.Visit) pages.Form {
	return pages.Form{ID: "new", Action: v.Place("settings", "connections"), Submit: "Connect", Fields: []pages.Field{
		{Name: "host", Label: "Host", Required: true, Placeholder: "github.com"},
		{Name: "provider", Label: "Kind", Kind: pages.SelectField, Null: true, Hint: "Hosts with well-known names need none.", Options: []pages.Option{
			{Value: "", Text: "From the name"}, {Value: "github", Text: "GitHub"}, {Value: "github_enterprise", Text: "GitHub Enterprise"}, {Value: "gitlab", Text: "GitLab"}, {Value: "gitlab_ee", Text: "GitLab, self-managed"},
			{Value: "bitbucket", Text: "Bitbucket"}, {Value: "bitbucket_server", Text: "Bitbucket Server"}, {Value: "gitea", Text: "Gitea"},
		}},
		{Name: "token", Label: "Token", Kind: pages.PasswordField, Null: true, Hint: "With access to repositories, webhooks and commit statuses."},
		{Name: "clone_token", Label: "Clone token", Kind: pages.PasswordField, Null: true, Hint: "Optional: what jobs clone private repositories with. It needs to read them only."},
		{Name: "api_url", Label: "API", Null: true, Placeholder: "https://git.example.com/api/v4", Hint: "Only if it is not at the usual place of the host."},
	}}
}

// appForm returns the form that connects a GitHub App.
func (s *Site) appForm(v *pages.Visit) pages.Form {
	return pages.Form{ID: "app", Action: v.Place("settings", "connections", "app"), Submit: "Connect app", Fields: []pages.Field{
		{Name: "host", Label: "Host", Required: true, Value: "github.com", Hint: "github.com, or your GitHub Enterprise server."},
		{Name: "app_id", Label: "App ID", Required: true, Placeholder: "123456", Hint: "On the page of the app, under About."},
		{Name: "installation_id", Label: "Installation ID", Required: true, Placeholder: "7890123", Hint: "The number at the end of the address of the installation's page."},
		{Name: "private_key", Label: "Private key", Kind: pages.CodeField, Required: true, Placeholder: "-----BEGIN RSA PRIVATE KEY-----", Hint: "The content of the .pem file that GitHub gave you. It is stored encrypted and not shown again."},
		{Name: "api_url", Label: "API", Null: true, Placeholder: "https://github.example.com/api/v3", Hint: "Only if it is not at the usual place of the host."},
	}}
}

func (s *Site) connections(v *pages.Visit) error {
	return s.showConnections(v, http.StatusOK, s.connectionForm(v), s.appForm(v))
}

func (s *Site) showConnections(v *pages.Visit, status int, form, app pages.Form) error {
	shown := struct {
		Allowed     bool
		Connections []connection
		New         pages.Form
		App         pages.Form
		At          string
	}{Allowed: true, New: form, App: app, At: v.Place("settings", "connections")}
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
		return s.showConnections(v, http.StatusUnprocessableEntity, f, s.appForm(v))
	})
}

func (s *Site) createApp(v *pages.Visit) error {
	return v.Submit(s.appForm(v), "POST", v.API("source-connections"), v.Place("settings", "connections"), "App connected. Test it before you rely on it.", func(f pages.Form) error {
		for i := range f.Fields {
			if f.Fields[i].Name == "private_key" {
				f.Fields[i].Value = "" // it is not shown again
			}
		}
		return s.showConnections(v, http.StatusUnprocessableEntity, s.connectionForm(v), f)
	})
}

// replaceForm returns the form with new credentials for a connection.
func (s *Site) replaceForm(v *pages.Visit, c connection) pages.Form {
	form := pages.Form{ID: "replace", Action: v.Place("settings", "connections", c.ID), Submit: "Save credentials", Fields: []pages.Field{
		{Name: "token", Label: "New token", Kind: pages.PasswordField, Null: true, Hint: "Empty: it stays as it is."},
		{Name: "clone_token", Label: "New clone token", Kind: pages.PasswordField, Hint: "Empty: it stays as it is."},
	}}
	if c.Authentication == "github_app" {
		form.Fields = []pages.Field{{Name: "private_key", Label: "New private key", Kind: pages.CodeField, Required: true, Placeholder: "-----BEGIN RSA PRIVATE KEY-----"}}
	}
	return form
}

func (s *Site) connection(v *pages.Visit) error { return s.showConnection(v, http.StatusOK, nil) }

func (s *Site) showConnection(v *pages.Visit, status int, entered *pages.Form) error {
	var c connection
	if _, err := v.Call("GET", v.API("source-connections", v.PathValue("connection")), nil, &c); err != nil {
		return err
	}
	form := s.replaceForm(v, c)
	if entered != nil {
		form = *entered
	}
	return s.show(v, status, "connection", "connections", c.Host, struct {
		Connection connection
		All        string
		Form       pages.Form
	}{c, v.Place("settings", "connections"), form})
}

func (s *Site) changeConnection(v *pages.Visit) error {
	var c connection
	if _, err := v.Call("GET", v.API("source-connections", v.PathValue("connection")), nil, &c); err != nil {
		return err
	}
	values, err := v.ReadForm()
	if err != nil {
		return err
	}
	form, body := s.replaceForm(v, c), map[string]any{}
	for name, value := range form.Body(values) {
		if value != "" && value != nil {
			body[name] = value
		}
	}
	_, err = v.Call("PATCH", v.API("source-connections", c.ID), body, nil)
	if wrong, ok := pages.RefusedFields(err); ok {
		form.Problems = wrong
		return s.showConnection(v, http.StatusUnprocessableEntity, &form)
	}
	if err != nil {
		return err
	}
	return v.Done(v.Place("settings", "connections"), "Credentials saved. Test them before you rely on them.")
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
