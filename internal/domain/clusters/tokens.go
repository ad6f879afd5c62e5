package clusters

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/tasks"
)

// An AgentToken lets agents and stacks register into its cluster. The database holds only the hash.
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
	// minTokenLife is the minimum lifetime of a new token. It prevents tokens that are useless because of a
	// wrong clock or time zone.
	minTokenLife = 10 * time.Minute
	// maxAddressBlocks limits the address blocks of a token.
	maxAddressBlocks = 24
)

// check reports errors in the fields that callers set.
func (t *AgentToken) check(problems *core.Problems) {
	if strings.TrimSpace(t.Description) == "" {
		problems.Add("description", "is required")
	}
	checkText(problems, "description", t.Description, maxDescription)
	if len(t.AllowedAddresses) > maxAddressBlocks {
		problems.Add("allowed_ip_addresses", "must be at most %d address blocks, not %d", maxAddressBlocks, len(t.AllowedAddresses))
	}
}

// parseBlock parses an address block like 10.1.0.0/16. A single address is a block of its own.
func parseBlock(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, false
	}
	// Client addresses are compared in their shortest form.
	const mapped = 96 // bits before an IPv4 address inside an IPv6 address
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p, true
}

// truncateExpiry cuts a token's expiry to milliseconds, the precision of responses, so that a client can send
// back what it received.
func truncateExpiry(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// createToken adds a token to a cluster and returns it with its value, which cannot be read again.
func (s *Service) createToken(ctx context.Context, c Cluster, t AgentToken) (created AgentToken, value string, err error) {
	value = seal.NewToken(identity.AgentTokenPrefix)
	t.hash = seal.HashToken(value)
	err = s.dir.Change(ctx, func(q *db.Q) error {
		if _, err := Lock(q, c.OrganizationID, c.ID); err != nil {
			return err
		}
		if err := insertToken(q, t); err != nil {
			return err
		}
		created, err = tokenByID(q, c.ID, t.ID)
		return err
	})
	return created, value, err
}

// changeToken applies change to a token while holding the lock of the cluster. The change takes effect with the
// next request.
func (s *Service) changeToken(ctx context.Context, p resource[AgentToken], change func(*AgentToken) error) (t AgentToken, err error) {
	err = s.dir.Change(ctx, func(q *db.Q) (err error) {
		if _, err = Lock(q, p.OrganizationID, p.ID); err != nil {
			return err
		}
		if t, err = tokenByID(q, p.ID, p.item.ID); err != nil {
			return err
		}
		before := t.AllowedAddresses
		if err = change(&t); err != nil {
			return err
		}
		if err := updateToken(q, t); err != nil {
			return err
		}
		return addressesChanged(q, t, before, s.clock())
	})
	return t, err
}

// revokeToken deletes a token. Agents can no longer register with it; registered agents are not affected.
func (s *Service) revokeToken(ctx context.Context, p resource[AgentToken]) error {
	return s.dir.Change(ctx, func(q *db.Q) error {
		return deleteToken(q, p.ID, p.item.ID)
	})
}

// AddressesChanged is the kind of the task that a change of the addresses that a token allows adds, whose key is the
// token's id and whose payload an AddressesChange.
const AddressesChanged = "agent-addresses-changed"

// An AddressesChange says where the token is.
type AddressesChange struct {
	ClusterID string `json:"cluster_id"`
}

// addressesChanged adds the task if the token allows other addresses than before.
func addressesChanged(q *db.Q, t AgentToken, before []netip.Prefix, now time.Time) error {
	if slices.Equal(t.AllowedAddresses, before) {
		return nil
	}
	return tasks.Add(q, tasks.Task{Kind: AddressesChanged, Key: t.ID, Payload: AddressesChange{t.ClusterID}, RunAt: now})
}

// TokenByID returns a token of a cluster, or a NotFound error.
func TokenByID(q *db.Q, clusterID, id string) (AgentToken, error) { return tokenByID(q, clusterID, id) }

// Allows reports whether the token may be used from an address.
func (t AgentToken) Allows(from netip.Addr) bool {
	return (&identity.AgentToken{AllowedAddresses: t.AllowedAddresses}).Allows(from)
}
