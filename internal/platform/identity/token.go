package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/netip"
	"slices"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// The prefixes of tokens, by their use.
const (
	AccessTokenPrefix      = "svcua_"
	AgentTokenPrefix       = "svcct_"
	AcquisitionTokenPrefix = "svcjat_"
)

// An AccessToken gives programs access to the REST API as its user.
type AccessToken struct {
	ID          string
	UserID      string
	Description string
	Scopes      Scopes
	CreatedAt   time.Time
	ExpiresAt   time.Time // zero: never
	hash        string
}

// An AgentToken lets agents and stacks of a cluster register.
type AgentToken struct {
	ID               string
	Description      string
	AllowedAddresses []netip.Prefix // none: any address
	ExpiresAt        time.Time      // zero: never
	ClusterID        string
	ClusterName      string
	Organization     Organization
	hash             string
}

var errUnknownToken = core.Errorf(core.Unauthorized, "Authentication required. Supply a valid API access token.")

// Authenticate returns the caller of an access token. Unknown, revoked and expired tokens give the same
// Unauthorized error.
func (d *Directory) Authenticate(ctx context.Context, token string) (*Caller, error) {
	hash := seal.HashToken(token)
	c, err := cached(ctx, d, d.callers, hash, func(q *db.Q) (*Caller, error) {
		return loadCaller(q, hash)
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil, errUnknownToken
	}
	if err != nil {
		return nil, err
	}
	if !sameHash(c.Token.hash, hash) || expired(c.Token.ExpiresAt, d.clock()) {
		return nil, errUnknownToken
	}
	return c, nil
}

var errUnknownAgentToken = core.Errorf(core.Unauthorized, "Authentication required. Supply a valid agent token.")

// AuthenticateAgent returns the agent token that was used from an address. Unknown, revoked and expired tokens,
// and addresses that the token does not allow, give an Unauthorized error.
func (d *Directory) AuthenticateAgent(ctx context.Context, token string, from netip.Addr) (*AgentToken, error) {
	hash := seal.HashToken(token)
	t, err := cached(ctx, d, d.agents, hash, func(q *db.Q) (*AgentToken, error) {
		return loadAgentToken(q, "t.hash", hash)
	})
	if err != nil {
		return nil, orUnknownAgentToken(err)
	}
	if !sameHash(t.hash, hash) {
		return nil, errUnknownAgentToken
	}
	if err := d.checkUsable(t, from); err != nil {
		return nil, err
	}
	return t, nil
}

// AgentTokenByID returns the agent token with an id as AuthenticateAgent does, for callers that were
// authenticated in another way.
func (d *Directory) AgentTokenByID(ctx context.Context, id string, from netip.Addr) (*AgentToken, error) {
	// Hashes and ids never collide, so both are keys of the same cache.
	t, err := cached(ctx, d, d.agents, id, func(q *db.Q) (*AgentToken, error) {
		return loadAgentToken(q, "t.id", id)
	})
	if err != nil {
		return nil, orUnknownAgentToken(err)
	}
	if err := d.checkUsable(t, from); err != nil {
		return nil, err
	}
	return t, nil
}

// orUnknownAgentToken returns an error of loading an agent token, as callers see it.
func orUnknownAgentToken(err error) error {
	if errors.Is(err, db.ErrNoRows) {
		return errUnknownAgentToken
	}
	return err
}

// checkUsable returns an error when an agent token has expired or does not allow the address.
func (d *Directory) checkUsable(t *AgentToken, from netip.Addr) error {
	if expired(t.ExpiresAt, d.clock()) {
		return errUnknownAgentToken
	}
	if !t.Allows(from) {
		return &AddressError{Token: t, From: from}
	}
	return nil
}

// An AddressError says that an agent token does not allow the address that it was used from.
type AddressError struct {
	Token *AgentToken
	From  netip.Addr
}

func (e *AddressError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the error for the caller.
func (e *AddressError) Unwrap() error {
	return core.Errorf(core.Unauthorized, "This agent token may not be used from the address %s.", e.From)
}

// Allows reports whether the token can be used from an address.
func (t *AgentToken) Allows(from netip.Addr) bool {
	from = from.Unmap()
	return len(t.AllowedAddresses) == 0 || slices.ContainsFunc(t.AllowedAddresses, func(p netip.Prefix) bool { return p.Contains(from) })
}

func sameHash(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func expired(at, now time.Time) bool {
	return !at.IsZero() && !now.Before(at)
}
