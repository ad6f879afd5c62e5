package oauth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// maxTokenLife is the maximum lifetime of access tokens in seconds: ten years.
const maxTokenLife = 10 * 365 * 24 * 60 * 60

// ApplicationSettings are the settings of an application that administrators can change.
type ApplicationSettings struct {
	Name           string
	Scopes         identity.Scopes // scopes it can request; EveryScope allows all
	RedirectURIs   []string        // none: only loopback redirects are allowed
	TokenExpiresIn int             // in seconds; 0: no expiry
	RefreshTokens  bool
	Enabled        bool
}

// Settings returns the application's settings.
func (a Application) Settings() ApplicationSettings {
	return ApplicationSettings{
		Name:           a.Name,
		Scopes:         a.Scopes,
		RedirectURIs:   a.RedirectURIs,
		TokenExpiresIn: a.TokenExpiresIn,
		RefreshTokens:  a.RefreshTokens,
		Enabled:        a.Enabled,
	}
}

// check returns a validation error with all problems, using the field names of the organization file.
func (s ApplicationSettings) check() error {
	var problems core.Problems
	if strings.TrimSpace(s.Name) == "" || utf8.RuneCountInString(s.Name) > maxName {
		problems.Add("name", "must have 1 to %d characters", maxName)
	}
	if len(s.Scopes) == 0 {
		problems.Add("scopes", "must have at least one")
	}
	if unknown := s.Scopes.Unknown(); unknown != "" {
		problems.Add("scopes", "has some that do not exist: %s", unknown)
	}
	if len(s.RedirectURIs) > maxRedirectURIs {
		problems.Add("redirect_uris", "must be at most %d", maxRedirectURIs)
	}
	for _, uri := range s.RedirectURIs {
		if !validRedirectURI(uri) {
			problems.Add("redirect_uris", "has %q, %s", uri, redirectURIRule)
			break
		}
	}
	if s.TokenExpiresIn < 0 || s.TokenExpiresIn > maxTokenLife {
		problems.Add("token_expires_in", "must be from 0, for no expiry, to %d seconds", maxTokenLife)
	}
	return problems.Err()
}

const redirectURIRule = "which must begin with https://, or with http:// and 127.0.0.1, [::1] or localhost, and have no fragment"

func (s ApplicationSettings) to(a *Application) {
	a.Name, a.Scopes, a.TokenExpiresIn, a.RefreshTokens, a.Enabled = s.Name, s.Scopes, s.TokenExpiresIn, s.RefreshTokens, s.Enabled
	a.RedirectURIs = append([]string{}, s.RedirectURIs...)
}

// Applications returns the applications that an organization manages, by name: those created by its
// administrators, and those that the organization file declares under it first. Members with the permission
// identity.ManageApplications (administrators) can create and change them. Built-in applications are managed
// with the organization file only.
func (s *Service) Applications(ctx context.Context, organizationID string) (list []Application, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		list, err = ownApplications(q, organizationID)
		return err
	})
	return list, err
}

// Application returns an application that an organization manages, or a NotFound error.
func (s *Service) Application(ctx context.Context, organizationID, id string) (a Application, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		a, err = ownApplication(q, organizationID, id)
		return err
	})
	return a, err
}

// CreateApplication creates an application managed by an organization. A confidential one gets a secret, which
// is returned and cannot be read again. An Unprocessable error has Fields.
func (s *Service) CreateApplication(ctx context.Context, organizationID string, settings ApplicationSettings, confidential bool) (a Application, secret string, err error) {
	if err := settings.check(); err != nil {
		return a, "", err
	}
	a = newApplication(newClientID(), s.clock())
	a.OrganizationID, a.Confidential = organizationID, confidential
	settings.to(&a)
	if confidential {
		secret = seal.NewToken(secretPrefix)
		a.secretHash = seal.HashToken(secret)
	}
	err = s.db.Write(ctx, func(q *db.Q) error { return insertApplication(q, a) })
	return a, secret, err
}

// EditApplication changes an application that an organization manages. A disabled application cannot request
// access and its tokens do not work, immediately in this process and within a second in others.
func (s *Service) EditApplication(ctx context.Context, organizationID, id string, settings ApplicationSettings) (Application, error) {
	if err := settings.check(); err != nil {
		return Application{}, err
	}
	return s.changeApplication(ctx, organizationID, id, func(a *Application) error {
		settings.to(a)
		return nil
	})
}

// RotateSecret gives a confidential application a new secret, which is returned and cannot be read again. The
// old secret stops working immediately.
func (s *Service) RotateSecret(ctx context.Context, organizationID, id string) (secret string, err error) {
	secret = seal.NewToken(secretPrefix)
	_, err = s.changeApplication(ctx, organizationID, id, func(a *Application) error {
		if !a.Confidential {
			return core.Errorf(core.Unprocessable, "A public application has no secret.")
		}
		a.secretHash = seal.HashToken(secret)
		return nil
	})
	return secret, err
}

func (s *Service) changeApplication(ctx context.Context, organizationID, id string, change func(*Application) error) (a Application, err error) {
	err = s.directory.Change(ctx, func(q *db.Q) error {
		if err := q.Lock("oauth_applications", id); err != nil {
			return err
		}
		if a, err = ownApplication(q, organizationID, id); err != nil {
			return err
		}
		if err := change(&a); err != nil {
			return err
		}
		return updateApplication(q, a)
	})
	return a, err
}

// newClientID returns a random client id.
func newClientID() string {
	var b [10]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
