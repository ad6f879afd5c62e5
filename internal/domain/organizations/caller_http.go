package organizations

import (
	"net/http"

	"stackyard/internal/domain/oauth"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/route"
)

// callerRoutes describe the caller and the token of the request.
func (s *Service) callerRoutes() []route.Route {
	const tag = "User and access token"
	return []route.Route{
		{
			Method: http.MethodGet, Path: "/v2/user", Tag: tag,
			Summary: "Get the user of the access token",
			Scope:   identity.ReadUser,
			Handler: route.Do(s.getUser),
		},
		{
			Method: http.MethodGet, Path: "/v2/access-token", Tag: tag,
			Summary: "Get the access token that the request is made with",
			Scope:   route.NoScope,
			Handler: route.Do(s.getAccessToken),
		},
		{
			Method: http.MethodDelete, Path: "/v2/access-token", Tag: tag,
			Summary:     "Revoke the access token that the request is made with",
			Description: "It stops working at once.",
			Scope:       route.NoScope,
			Status:      http.StatusNoContent,
			Handler:     route.Do(s.revokeAccessToken),
		},
	}
}

func (s *Service) getUser(r *route.Request) (*identity.UserView, error) {
	return r.Caller.User.View(s.public), nil
}

type accessTokenView struct {
	UUID        string              `json:"uuid"`
	Scopes      []string            `json:"scopes"`
	Description string              `json:"description"`
	CreatedAt   core.Time           `json:"created_at"`
	ExpiresAt   core.Time           `json:"expires_at" doc:"When it stops working; null: never."`
	User        accessTokenUserView `json:"user"`
}

type accessTokenUserView struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

func (s *Service) getAccessToken(r *route.Request) (accessTokenView, error) {
	t, u := r.Caller.Token, r.Caller.User
	return accessTokenView{
		UUID:        t.ID,
		Scopes:      t.Scopes.Names(),
		Description: t.Description,
		CreatedAt:   core.At(t.CreatedAt),
		ExpiresAt:   core.At(t.ExpiresAt),
		User:        accessTokenUserView{Name: u.Name, Email: u.Email},
	}, nil
}

func (s *Service) revokeAccessToken(r *route.Request) (route.Nothing, error) {
	return route.Nothing{}, s.directory.Change(r.Context(), func(q *db.Q) error {
		return oauth.RevokeAccessToken(q, r.Caller.Token.ID)
	})
}
