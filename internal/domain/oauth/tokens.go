package oauth

import (
	"strings"
	"time"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// tokenView is the body of a successful token response.
type tokenView struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type" doc:"Always Bearer."`
	ExpiresIn    int    `json:"expires_in,omitempty" doc:"Seconds until it expires; left out when the application's tokens do not."`
	RefreshToken string `json:"refresh_token,omitempty" doc:"Left out unless the application has refresh tokens."`
	Scope        string `json:"scope" doc:"The granted scopes, with spaces between them."`
}

// issue creates the tokens of a grant that was just redeemed.
func issue(q *db.Q, a Application, grantID string, now time.Time) (tokenView, error) {
	g, err := liveGrant(q, grantID)
	if err != nil {
		return tokenView{}, err
	}
	return g.issue(q, a, g.scopes, now)
}

// issue creates an access token with some of the grant's scopes, and a refresh token if the application uses
// them.
func (g grant) issue(q *db.Q, a Application, scopes identity.Scopes, now time.Time) (tokenView, error) {
	view := tokenView{
		AccessToken: seal.NewToken(identity.AccessTokenPrefix),
		TokenType:   "Bearer",
		ExpiresIn:   a.TokenExpiresIn,
		Scope:       strings.Join(scopes.Names(), " "),
	}
	t := account.StoredToken{
		ID:          core.NewID(),
		UserID:      g.userID,
		Hash:        seal.HashToken(view.AccessToken),
		Description: a.Name,
		Scopes:      scopes,
		CreatedAt:   now,
		GrantID:     g.id,
	}
	if a.TokenExpiresIn > 0 {
		t.ExpiresAt = now.Add(time.Duration(a.TokenExpiresIn) * time.Second)
	}
	if err := account.InsertToken(q, t, g.organizationID); err != nil || !a.RefreshTokens {
		return view, err
	}
	view.RefreshToken = seal.NewToken(refreshPrefix)
	return view, insertRefreshToken(q, refreshToken{
		id:        seal.HashToken(view.RefreshToken),
		grantID:   g.id,
		createdAt: now,
		expiresAt: now.Add(refreshLife),
	})
}
