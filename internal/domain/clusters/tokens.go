package clusters

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// An AgentToken lets agents and stacks register into its cluster. The token itself is known only to
// those who hold it.
type AgentToken struct {
	ID               string
	ClusterID        string
	Description      string
	AllowedAddresses []netip.Prefix // none: any address
	ExpiresAt        time.Time      // zero: never
	hash             string
	CreatedBy        *identity.User
	CreatedAt        time.Time
}

const (
	// minTokenLife is how long a new token must live at least, so that a slip of the clock or of a
	// time zone does not make one that is useless.
	minTokenLife = 10 * time.Minute
	// maxAddressBlocks is how many address blocks a token can be bound to.
	maxAddressBlocks = 24
)

// check notes what is wrong with what people say about a token.
func (t *AgentToken) check(problems *core.Problems) {
	if strings.TrimSpace(t.Description) == "" {
		problems.Add("description", "is required")
	}
	checkText(problems, "description", t.Description, maxDescription)
	if len(t.AllowedAddresses) > maxAddressBlocks {
		problems.Add("allowed_ip_addresses", "must be at most %d address blocks, not %d", maxAddressBlocks, len(t.AllowedAddresses))
	}
}

// parseBlock reads an address block, such as 10.1.0.0/16; an address stands for itself alone.
func parseBlock(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, false
	}
	// Clients' addresses are compared in their shortest form.
	const mapped = 96 // the bits before an IPv4 address inside an IPv6 one
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p, true
}

// asShown cuts the time at which a token expires to the milliseconds in which it is shown, so that a
// client can send back what it got.
func asShown(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// createToken adds a token to a cluster and returns it with its value, which is shown only this once.
func (s *Service) createToken(ctx context.Context, c Cluster, t AgentToken) (made AgentToken, value string, err error) {
	value = seal.NewToken(identity.AgentTokenPrefix)
	t.hash = seal.HashToken(value)
	err = s.dir.Change(ctx, func(q *db.Q) error {
		if _, err := Lock(q, c.OrganizationID, c.ID); err != nil {
			return err
		}
		if err := insertToken(q, t); err != nil {
			return err
		}
		made, err = tokenByID(q, c.ID, t.ID)
		return err
	})
	return made, value, err
}

// changeToken changes a token, with effect on the next request that presents it. Nobody else changes
// it meanwhile.
func (s *Service) changeToken(ctx context.Context, p part[AgentToken], change func(*AgentToken) error) (t AgentToken, err error) {
	err = s.dir.Change(ctx, func(q *db.Q) (err error) {
		if _, err = Lock(q, p.OrganizationID, p.ID); err != nil {
			return err
		}
		if t, err = tokenByID(q, p.ID, p.it.ID); err != nil {
			return err
		}
		if err = change(&t); err != nil {
			return err
		}
		return updateToken(q, t)
	})
	return t, err
}

// revokeToken deletes a token. Nobody registers with it any more; agents that have are not affected.
func (s *Service) revokeToken(ctx context.Context, p part[AgentToken]) error {
	return s.dir.Change(ctx, func(q *db.Q) error {
		return deleteToken(q, p.ID, p.it.ID)
	})
}
