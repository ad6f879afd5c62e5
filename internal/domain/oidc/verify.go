package oidc

import (
	"context"
	"errors"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"stackyard/internal/platform/core"
)

var errInvalidToken = core.Errorf(core.Unauthorized, "The OpenID Connect token is not valid: it was not issued by this server, or it has expired")

// Verify returns the claims of a token that this service issued and that has not expired, or an Unauthorized error. The
// caller checks the audience.
func (s *Service) Verify(ctx context.Context, token string) (map[string]any, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return nil, errInvalidToken
	}
	keys, err := s.keys.current(ctx)
	if err != nil {
		return nil, err
	}
	var standard jwt.Claims
	claims := make(map[string]any)
	if err := parsed.Claims(&keys.public, &standard, &claims); err != nil {
		return nil, errInvalidToken
	}
	err = standard.ValidateWithLeeway(jwt.Expected{Issuer: string(s.public), Time: s.clock()}, 0)
	if errors.Is(err, jwt.ErrExpired) {
		return nil, core.Errorf(core.Unauthorized, "The OpenID Connect token has expired")
	}
	if err != nil {
		return nil, errInvalidToken
	}
	return claims, nil
}
