package oauth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

const (
	refreshPrefix = "svcrt_"
	// refreshLife is how long a refresh token is valid. Each use returns a new one, so this is how long an
	// application can stay idle before its user has to approve it again.
	refreshLife = 180 * 24 * time.Hour
	// rememberUsed is how long a used refresh token is kept, to detect reuse.
	rememberUsed = 30 * 24 * time.Hour
	// replacedLife is how long older access tokens of a grant stay valid after a refresh, for requests in
	// flight.
	replacedLife = time.Hour
)

// A refreshToken is exchanged once for new tokens.
type refreshToken struct {
	id            string // hash of the token
	grantID       string
	applicationID string // of the grant
	used          bool
	createdAt     time.Time
	expiresAt     time.Time // for a used token: when its row is removed
}

// refresh returns new tokens for a refresh token. If the token was used before, one of its two users has stolen
// it, so the grant is revoked with all tokens.
func (s *Service) refresh(ctx context.Context, a Application, token, scope string) (tokenView, error) {
	if !a.RefreshTokens {
		return tokenView{}, errorf(unauthorizedClient, "This application does not have refresh tokens.")
	}
	id := seal.HashToken(token)
	return s.redeemOnce(ctx, "refresh token", func(q *db.Q, now time.Time) (view tokenView, stolen string, err error) {
		t, err := lockRefreshToken(q, id)
		switch {
		case errors.Is(err, db.ErrNoRows) || err == nil && t.applicationID != a.ID:
			err = errorf(invalidGrant, "No refresh token is like this one, or its authorization was revoked.")
		case err != nil:
		case t.used:
			return view, t.grantID, nil
		case !now.Before(t.expiresAt):
			err = errorf(invalidGrant, "The refresh token has expired.")
		default:
			view, err = t.redeem(q, a, scope, now)
		}
		return view, "", err
	})
}

// redeem uses the locked refresh token.
func (t refreshToken) redeem(q *db.Q, a Application, scope string, now time.Time) (tokenView, error) {
	g, err := liveGrant(q, t.grantID)
	if err != nil {
		return tokenView{}, err
	}
	scopes, err := g.narrow(a, scope)
	if err != nil {
		return tokenView{}, err
	}
	if err := useRefreshToken(q, t.id, now.Add(rememberUsed)); err != nil {
		return tokenView{}, err
	}
	if err := replaceAccessTokens(q, g.id, now); err != nil {
		return tokenView{}, err
	}
	return g.issue(q, a, scopes, now)
}

// narrow returns the scopes of a new token: the requested ones, or all scopes of the grant. Scopes that the
// application can no longer request are left out.
func (g grant) narrow(a Application, scope string) (identity.Scopes, error) {
	held := slices.DeleteFunc(slices.Clone(g.scopes), func(s identity.Scope) bool { return !a.Scopes.Has(s) })
	if len(held) == 0 {
		return nil, errorf(invalidGrant, "The application may not ask for the granted scopes any more.")
	}
	if strings.TrimSpace(scope) == "" {
		return held, nil
	}
	asked, err := a.ask(scope)
	if err != nil {
		return nil, err
	}
	for _, s := range asked {
		if !held.Has(s) {
			return nil, errorf(invalidScope, "The scope %s was not granted.", s)
		}
	}
	return asked, nil
}

// endGrant revokes a grant with all its tokens, immediately in this process and within a second in others.
func (s *Service) endGrant(ctx context.Context, id string) error {
	return s.directory.Change(ctx, func(q *db.Q) error { return removeGrants(q, []string{id}) })
}

// revoke revokes the grant of an access or refresh token. An unknown token counts as revoked.
func (s *Service) revoke(ctx context.Context, a Application, token string) error {
	var grantID, applicationID string
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		grantID, applicationID, err = grantOfToken(q, seal.HashToken(token))
		return err
	})
	if core.KindOf(err) == core.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if applicationID != a.ID {
		return errorf(unauthorizedClient, "The token was not issued to this application.")
	}
	return s.endGrant(ctx, grantID)
}
