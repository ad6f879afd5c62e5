package organizations

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// An AccessTokenSpec describes an access token of a member in the organization file. The description identifies
// the token. If Token is empty, a token is generated once.
type AccessTokenSpec struct {
	Line        int             `yaml:"-"`
	ID          string          `yaml:"id"`
	Description string          `yaml:"description"`
	Token       string          `yaml:"token"`
	Scopes      identity.Scopes `yaml:"scopes"`
	ExpiresAt   *time.Time      `yaml:"expires_at"`
}

func (s AccessTokenSpec) key() (line int, key string) { return s.Line, s.Description }

// same reports whether two specs of one token agree.
func (s AccessTokenSpec) same(t AccessTokenSpec) bool {
	return s.Description == t.Description && sameScopes(s.Scopes, t.Scopes) &&
		(s.ExpiresAt == nil || t.ExpiresAt == nil || s.ExpiresAt.Equal(*t.ExpiresAt))
}

// Check reports errors in the spec that can be found without a database.
func (s AccessTokenSpec) Check(c *core.Complaints) {
	c.CheckID(s.Line, s.ID)
	if strings.TrimSpace(s.Description) == "" || utf8.RuneCountInString(s.Description) > maxName {
		c.Add(s.Line, "an access token needs a description of 1 to %d characters", maxName)
	}
	if len(s.Token) > maxName || strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		c.Add(s.Line, "a token must have at most %d characters and no spaces", maxName)
	}
	if s.Scopes == nil {
		c.Add(s.Line, `an access token needs scopes; ["*"] is all of them`)
	}
	if unknown := s.Scopes.Unknown(); unknown != "" {
		c.Add(s.Line, "unknown scopes: %s", unknown)
	}
}

// getAccessToken creates or updates a user's token and gives it access to the organization.
func (a *applier) accessToken(user identity.User, spec AccessTokenSpec) error {
	name := user.Email + "/" + spec.Description
	known, err := a.knownToken(user, spec)
	if errors.Is(err, db.ErrNoRows) {
		return a.newToken(user, spec, name)
	}
	if err != nil {
		return err
	}
	if known.UserID != user.ID {
		a.Complaints.Add(spec.Line, "this token already belongs to somebody else")
		return nil
	}
	if id, given := core.ParseID(spec.ID); given && id != known.ID {
		a.Complaints.Add(spec.Line, "the access token %q exists with the id %s, which cannot be changed", spec.Description, known.ID)
		return nil
	}
	wanted := known
	spec.applyTo(&wanted)
	if wanted.same(known) {
		return nil
	}
	a.Changes.Changed("access_token", name)
	return a.saveToken(wanted, account.UpdateToken)
}

// knownToken finds the token of a spec: by its value in any organization, else by its description among the
// user's tokens in this organization.
func (a *applier) knownToken(user identity.User, spec AccessTokenSpec) (storedToken, error) {
	if spec.Token != "" {
		known, hasAccess, err := account.TokenByHash(a.Q, a.Org.ID, seal.HashToken(spec.Token))
		if !errors.Is(err, db.ErrNoRows) {
			return storedToken{known, hasAccess}, err
		}
	}
	known, hasAccess, err := account.TokenByDescription(a.Q, a.Org.ID, user.ID, spec.Description)
	return storedToken{known, hasAccess}, err
}

func (a *applier) newToken(user identity.User, spec AccessTokenSpec, name string) error {
	id, ok, err := account.FreeTokenID(a.Q, spec.ID)
	if err != nil {
		return err
	}
	if !ok {
		a.Complaints.Add(spec.Line, "the id %s belongs to another access token", id)
		return nil
	}
	a.Changes.Created("access_token", name)
	if spec.Token == "" {
		spec.Token = seal.NewToken(identity.AccessTokenPrefix)
		a.Changes.Token("access_token", name, spec.Token)
	}
	t := storedToken{StoredToken: account.StoredToken{ID: id, UserID: user.ID, CreatedAt: a.Now}}
	spec.applyTo(&t)
	return a.saveToken(t, func(q *db.Q, t account.StoredToken) error { return account.InsertToken(q, t) })
}

func (a *applier) saveToken(t storedToken, store func(*db.Q, account.StoredToken) error) error {
	if err := store(a.Q, t.StoredToken); err != nil {
		return err
	}
	return account.AddTokenOrganizations(a.Q, t.ID, a.Org.ID)
}

// applyTo writes the fields that the spec gives into t.
func (s AccessTokenSpec) applyTo(t *storedToken) {
	t.Description, t.Scopes, t.HasAccess = s.Description, s.Scopes, true
	if s.Token != "" {
		t.Hash = seal.HashToken(s.Token)
	}
	if s.ExpiresAt != nil {
		t.ExpiresAt = s.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
}

// storedToken is an access token, and whether it has access to the organization that is applied.
type storedToken struct {
	account.StoredToken
	HasAccess bool
}

func (t storedToken) same(u storedToken) bool {
	return t.Hash == u.Hash && t.Description == u.Description && sameScopes(t.Scopes, u.Scopes) &&
		t.ExpiresAt.Equal(u.ExpiresAt) && t.HasAccess == u.HasAccess
}

// sameScopes reports whether two lists contain the same scopes in any order.
func sameScopes(a, b identity.Scopes) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
