package oauth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"stackyard/internal/core"
	"stackyard/internal/db"
	"stackyard/internal/identity"
	"stackyard/internal/seal"
)

const (
	refreshPrefix = "svcrt_"
	// refreshLife is how long a refresh token can be used. Each use gives a new one, so it is how long an
	// application may be left alone before its user has to approve it again.
	refreshLife = 180 * 24 * time.Hour
	// rememberUsed is how long a refresh token is known after its use.
	rememberUsed = 30 * 24 * time.Hour
	// replacedLife is how long the access tokens of a grant go on at most when there is a new one, for the
	// sake of calls that have begun.
	replacedLife = time.Hour
)

// A refreshToken gives an application another access token, once.
type refreshToken struct {
	id            string // hash of the token
	grantID       string
	applicationID string // of the grant
	used          bool
	createdAt     time.Time
	expiresAt     time.Time // of a used one: when it is forgotten
}

// refresh gives an application new tokens for a refresh token. One that has been used already is in two
// hands, of which one has stolen it; since nobody can tell which, its grant ends with all tokens.
func (s *Service) refresh(ctx context.Context, a Application, token, scope string) (tokenView, error) {
	if !a.RefreshTokens {
		return tokenView{}, errorf(unauthorizedClient, "This application does not have refresh tokens.")
	}
	var view tokenView
	var stolen string // the grant
	id := seal.HashToken(token)
	err := s.db.Write(ctx, func(q *db.Q) error {
		view, stolen = tokenView{}, ""
		now := s.clock()
		t, err := lockRefreshToken(q, id)
		switch {
		case errors.Is(err, db.ErrNoRows) || err == nil && t.applicationID != a.ID:
			return errorf(invalidGrant, "No refresh token is like this one, or its authorization was revoked.")
		case err != nil:
			return err
		case t.used:
			stolen = t.grantID
			return nil
		case !now.Before(t.expiresAt):
			return errorf(invalidGrant, "The refresh token has expired.")
		}
		view, err = t.redeem(q, a, scope, now)
		return err
	})
	if err != nil || stolen == "" {
		return view, err
	}
	if err := s.endGrant(ctx, stolen); err != nil {
		return view, err
	}
	return view, errorf(invalidGrant, "The refresh token was used before, so the authorization has been revoked.")
}

// redeem uses the refresh token, which is locked.
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

// narrow returns the scopes of a new token: those that are asked for, or else all of the grant. What the
// application may not ask for any more is left out.
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

// endGrant ends a grant with all that came of it, at once in this process and within a second in others.
func (s *Service) endGrant(ctx context.Context, id string) error {
	return s.directory.Change(ctx, func(q *db.Q) error { return removeGrants(q, []string{id}) })
}

// revoke ends the grant that a token, of either kind, came of. A token that nobody knows is as good as
// revoked.
func (s *Service) revoke(ctx context.Context, a Application, token string) error {
	var grantID, applicationID string
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		grantID, applicationID, err = grantOfToken(q, seal.HashToken(token))
		return err
	})
	switch {
	case core.KindOf(err) == core.NotFound:
		return nil
	case err != nil:
		return err
	case applicationID != a.ID:
		return errorf(unauthorizedClient, "The token was not issued to this application.")
	}
	return s.endGrant(ctx, grantID)
}
