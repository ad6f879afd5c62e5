package connections

import (
	"context"
	"errors"
	"net/http"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
	"stackyard/internal/platform/sourcehost"
)

// Routes returns the routes of source connections, which are for administrators, and those of their repositories.
func (s *Service) Routes() []route.Route {
	const all = "/v2/organizations/{org}/source-connections"
	const one = all + "/{connection}"
	routes := []route.Route{
		{
			Method: http.MethodGet, Path: all, Summary: "List source connections", Description: "By host. Credentials are never shown.",
			Query: route.PageParams, Handler: route.Do(s.getAll),
		},
		{
			Method: http.MethodPost, Path: all, Summary: "Create a source connection",
			Description: "Needs a token, or the app_id, installation_id and private_key of a GitHub App. They are stored encrypted and not tried; see the test.",
			Status:      http.StatusCreated, Handler: route.DoBody(s.post),
		},
		{Method: http.MethodGet, Path: one, Summary: "Get a source connection", Handler: route.On(s.load, s.get)},
		{
			Method: http.MethodPatch, Path: one, Summary: "Update a source connection",
			Description: "Fields that are not sent keep their values. A token replaces a GitHub App, and the reverse. Another api_url needs new credentials.",
			Handler:     route.OnBody(s.load, s.patch),
		},
		{
			Method: http.MethodPost, Path: one + "/test", Summary: "Test a source connection",
			Description: "Calls the API of the host with the stored credentials.",
			Handler:     route.On(s.load, s.test),
		},
		{
			Method: http.MethodDelete, Path: one, Summary: "Delete a source connection",
			Status: http.StatusNoContent, Handler: route.On(s.load, s.remove),
		},
	}
	for i := range routes {
		r := &routes[i]
		r.Tag, r.Scope, r.Permission = "Source connections", identity.WriteOrganizationSettings, identity.ChangeOrganization
		if r.Method == http.MethodGet {
			r.Scope = identity.ReadOrganizationRepositoryConnections
		}
	}
	return append(routes, s.repositoryRoutes()...)
}

type connectionView struct {
	ID             string    `json:"id"`
	URL            string    `json:"url"`
	Host           string    `json:"host" doc:"As in repository URLs."`
	Provider       string    `json:"provider"`
	APIURL         string    `json:"api_url"`
	Authentication string    `json:"authentication" doc:"token or github_app."`
	AppID          *string   `json:"app_id"`
	InstallationID *string   `json:"installation_id"`
	HasCloneToken  bool      `json:"has_clone_token" doc:"Whether jobs clone with a token of their own."`
	CreatedAt      core.Time `json:"created_at"`
	UpdatedAt      core.Time `json:"updated_at"`
}

func (s *Service) view(r *route.Request, c *Connection) connectionView {
	return connectionView{
		ID:             c.ID,
		URL:            s.public.Org(r.Org.Slug, "source-connections", c.ID),
		Host:           c.Host,
		Provider:       c.Provider,
		APIURL:         c.APIURL,
		Authentication: c.authentication(),
		AppID:          core.OrNull(c.AppID),
		InstallationID: core.OrNull(c.InstallationID),
		HasCloneToken:  c.sealedCloneToken != "",
		CreatedAt:      core.At(c.CreatedAt),
		UpdatedAt:      core.At(c.UpdatedAt),
	}
}

// connectionFields are the request fields of creating and updating a connection.
type connectionFields struct {
	Provider       route.Opt[string] `json:"provider" doc:"github, github_enterprise, gitlab, gitlab_ee, bitbucket, bitbucket_server or gitea; from the name of the host unless given."`
	APIURL         route.Opt[string] `json:"api_url" doc:"The usual one of the provider on the host unless given."`
	Token          route.Opt[string] `json:"token"`
	CloneToken     route.Opt[string] `json:"clone_token" doc:"What jobs clone with; null: nothing."`
	AppID          route.Opt[string] `json:"app_id" doc:"Of a GitHub App."`
	InstallationID route.Opt[string] `json:"installation_id" doc:"Of the app in the organization on GitHub."`
	PrivateKey     route.Opt[string] `json:"private_key" doc:"Of the app, as a PEM file."`
}

// change returns what the request sets. null removes a clone token; other fields stay.
func (f connectionFields) change() change {
	given := func(o route.Opt[string]) *string {
		if !o.Set || o.Null {
			return nil
		}
		return &o.Value
	}
	ch := change{
		provider: given(f.Provider), apiURL: given(f.APIURL), token: given(f.Token), cloneToken: given(f.CloneToken),
		appID: given(f.AppID), installationID: given(f.InstallationID), privateKey: given(f.PrivateKey),
	}
	if f.CloneToken.Null {
		ch.cloneToken = new(string)
	}
	return ch
}

type connectionCreate struct {
	Host string `json:"host" doc:"As in repository URLs, such as github.com."`
	connectionFields
}

// load returns the connection in the path.
func (s *Service) load(r *route.Request) (*Connection, error) {
	return route.ReadByID(r, s.db, "connection", noConnection, func(q *db.Q, id string) (*Connection, error) { return byID(q, r.Org.ID, id) })
}

func (s *Service) getAll(r *route.Request) (route.Paged[connectionView], error) {
	return route.ReadPage(r, s.db,
		func(q *db.Q, limit, offset int) ([]*Connection, int, error) { return list(q, r.Org.ID, limit, offset) },
		func(c *Connection) connectionView { return s.view(r, c) })
}

func (s *Service) get(r *route.Request, c *Connection) (connectionView, error) {
	return s.view(r, c), nil
}

func (s *Service) post(r *route.Request, body connectionCreate) (connectionView, error) {
	c, err := s.create(r.Context(), r.Org.ID, body.Host, body.change())
	if err != nil {
		return connectionView{}, err
	}
	return s.view(r, c), nil
}

func (s *Service) patch(r *route.Request, c *Connection, body connectionFields) (connectionView, error) {
	c, err := s.update(r.Context(), r.Org.ID, c.ID, body.change())
	if err != nil {
		return connectionView{}, err
	}
	return s.view(r, c), nil
}

func (s *Service) remove(r *route.Request, c *Connection) (route.Nothing, error) {
	return route.Nothing{}, s.delete(r.Context(), c)
}

type connectionTestView struct {
	OK      bool   `json:"ok"`
	Message string `json:"message" doc:"What is wrong and what to do, or that the host accepts the credentials."`
}

// testTimeout bounds a test.
const testTimeout = 20 * time.Second

func (s *Service) test(r *route.Request, c *Connection) (connectionTestView, error) {
	ctx, cancel := context.WithTimeout(r.Context(), testTimeout)
	defer cancel()
	host, err := s.host(ctx, c)
	if err == nil {
		err = host.Check(ctx)
	}
	if errors.Is(err, sourcehost.ErrRefused) || errors.Is(err, sourcehost.ErrUnavailable) {
		return connectionTestView{Message: err.Error()}, nil
	}
	if err != nil {
		return connectionTestView{}, err
	}
	return connectionTestView{OK: true, Message: c.Host + " accepts the credentials"}, nil
}
