package organizations

import (
	"slices"
	"time"

	"stackyard/internal/domain/account"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
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
	identity.CheckDeclared(c, s.Line, "an access token", s.Description, s.Token)
	if s.Scopes == nil {
		c.Add(s.Line, `an access token needs scopes; ["*"] is all of them`)
	}
	if unknown := s.Scopes.Unknown(); unknown != "" {
		c.Add(s.Line, "unknown scopes: %s", unknown)
	}
}

// accessToken creates or updates a user's token and gives it access to the organization.
func (a *applier) accessToken(user identity.User, spec AccessTokenSpec) error {
	find := func(t account.StoredToken, hasAccess bool, err error) (storedToken, error) {
		return storedToken{t, hasAccess}, db.OrNotFound(err, "No access token found")
	}
	save := func(t storedToken, err error) error {
		if err != nil {
			return err
		}
		return account.AddTokenOrganizations(a.Q, t.ID, a.Org.ID)
	}
	return identity.DeclaredToken[storedToken]{
		Line: spec.Line, ID: spec.ID, Value: spec.Token, Description: spec.Description,
		Kind: "access_token", Name: user.Email + "/" + spec.Description, Noun: "access token", Owner: "another user",
		Prefix: identity.AccessTokenPrefix,
		ByHash: func(hash string) (storedToken, error) { return find(account.TokenByHash(a.Q, a.Org.ID, hash)) },
		ByDescription: func() (storedToken, error) {
			return find(account.TokenByDescription(a.Q, a.Org.ID, user.ID, spec.Description))
		},
		Owned:  func(t storedToken) (string, bool) { return t.ID, t.UserID == user.ID },
		FreeID: func(given string) (string, bool, error) { return account.FreeTokenID(a.Q, given) },
		Merge:  spec.applyTo,
		Same:   storedToken.same,
		Insert: func(id string, t storedToken) error {
			t.ID, t.UserID, t.CreatedAt = id, user.ID, a.Now
			return save(t, account.InsertToken(a.Q, t.StoredToken, a.Org.ID))
		},
		Update: func(t, _ storedToken) error { return save(t, account.UpdateToken(a.Q, t.StoredToken)) },
	}.Apply(a.Applying)
}

// applyTo writes the fields that the spec gives into t; an empty hash keeps the value.
func (s AccessTokenSpec) applyTo(t *storedToken, hash string) {
	t.Description, t.Scopes, t.HasAccess = s.Description, s.Scopes, true
	if hash != "" {
		t.Hash = hash
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
