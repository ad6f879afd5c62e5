package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"time"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// An authorizationCode is exchanged for a token.
type authorizationCode struct {
	id            string // hash of the code
	grantID       string
	applicationID string // of the grant
	redirectURI   string
	challenge     string
	used          bool
	expiresAt     time.Time
}

// exchange returns tokens for an authorization code, once. If a code is used twice, someone else has seen it,
// so its grant is revoked with all tokens.
func (s *Service) exchange(ctx context.Context, a Application, code, redirectURI, verifier string) (tokenView, error) {
	id := seal.HashToken(code)
	return s.redeemOnce(ctx, "authorization code", func(q *db.Q, now time.Time) (view tokenView, stolen string, err error) {
		c, err := lockCode(q, id)
		switch {
		case errors.Is(err, db.ErrNoRows) || err == nil && c.applicationID != a.ID:
			return view, "", errorf(invalidGrant, "No authorization code is like this one, or its authorization was revoked.")
		case err != nil:
			return view, "", err
		case c.used:
			return view, c.grantID, nil
		}
		if err := c.check(redirectURI, verifier, now); err != nil {
			return view, "", err
		}
		if err := useCode(q, c.id); err != nil {
			return view, "", err
		}
		view, err = issue(q, a, c.grantID, now)
		return view, "", err
	})
}

// redeemOnce returns the tokens that redeem issues for a code or token. If that was used before, redeem returns the id
// of its grant, which is revoked then.
func (s *Service) redeemOnce(ctx context.Context, what string, redeem func(q *db.Q, now time.Time) (view tokenView, stolen string, err error)) (tokenView, error) {
	var view tokenView
	var stolen string
	err := s.db.Write(ctx, func(q *db.Q) (err error) {
		view, stolen, err = redeem(q, s.clock())
		return err
	})
	if err != nil || stolen == "" {
		return view, err
	}
	if err := s.endGrant(ctx, stolen); err != nil {
		return view, err
	}
	return view, errorf(invalidGrant, "The %s was used before, so the authorization has been revoked.", what)
}

// check returns an error unless the redirect URI matches the original request and the verifier matches the
// challenge.
func (c authorizationCode) check(redirectURI, verifier string, now time.Time) error {
	switch {
	case !now.Before(c.expiresAt):
		return errorf(invalidGrant, "The authorization code has expired.")
	case redirectURI != c.redirectURI:
		return errorf(invalidGrant, "redirect_uri is not the one that the code was asked with.")
	case subtle.ConstantTimeCompare([]byte(challengeOf(verifier)), []byte(c.challenge)) != 1:
		return errorf(invalidGrant, "code_verifier is not the one of the code's challenge.")
	}
	return nil
}

// challengeOf returns the code challenge of a code verifier (RFC 7636, 4.2).
func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
