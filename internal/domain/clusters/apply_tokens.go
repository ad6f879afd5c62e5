package clusters

import (
	"net/netip"
	"slices"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// An AgentTokenSpec describes an agent token of a cluster in the organization file. The value identifies the
// token if it is given, else the description. If Token is empty, a token is generated once. Unlike the API, the
// file can change an expiry and set one in the past.
type AgentTokenSpec struct {
	Line             int        `yaml:"-"`
	Description      string     `yaml:"description"`
	ID               string     `yaml:"id"`
	Token            string     `yaml:"token"`
	AllowedAddresses []string   `yaml:"allowed_ip_addresses"` // nil: unchanged
	ExpiresAt        *time.Time `yaml:"expires_at"`
}

// Check reports errors in the spec that can be found without a database.
func (s AgentTokenSpec) Check(c *core.Complaints) {
	c.CheckID(s.Line, s.ID)
	identity.CheckDeclared(c, s.Line, "an agent token", s.Description, s.Token)
	for _, block := range s.AllowedAddresses {
		if _, ok := parseBlock(block); !ok {
			c.Add(s.Line, "%q is not an address block such as 10.1.0.0/16", block)
		}
	}
	if len(s.AllowedAddresses) > maxAddressBlocks {
		c.Add(s.Line, "an agent token can be bound to at most %d address blocks", maxAddressBlocks)
	}
}

// agentToken creates or updates a token of a cluster.
func (a *applier) agentToken(c Cluster, spec AgentTokenSpec) error {
	return identity.DeclaredToken[AgentToken]{
		Line: spec.Line, ID: spec.ID, Value: spec.Token, Description: spec.Description,
		Kind: "agent_token", Name: a.name(c, spec.Description), Noun: "agent token", Owner: "another cluster",
		Prefix:        identity.AgentTokenPrefix,
		ByHash:        func(hash string) (AgentToken, error) { return tokenByHash(a.Q, hash) },
		ByDescription: func() (AgentToken, error) { return tokenByDescription(a.Q, c.ID, spec.Description) },
		Owned:         func(t AgentToken) (string, bool) { return t.ID, t.ClusterID == c.ID },
		FreeID:        func(given string) (string, bool, error) { return db.FreeID(a.Q, "agent_tokens", given) },
		Merge:         spec.applyTo,
		Same:          AgentToken.same,
		Insert: func(id string, t AgentToken) error {
			t.ID, t.ClusterID, t.CreatedAt = id, c.ID, a.Now
			return insertToken(a.Q, t)
		},
		Update: func(t, before AgentToken) error {
			if err := updateToken(a.Q, t); err != nil {
				return err
			}
			return addressesChanged(a.Q, t, before.AllowedAddresses, a.Now)
		},
	}.Apply(a.Applying)
}

// applyTo writes the fields that the spec gives into t; an empty hash keeps the value.
func (s AgentTokenSpec) applyTo(t *AgentToken, hash string) {
	t.Description = s.Description
	if hash != "" {
		t.hash = hash
	}
	if s.AllowedAddresses != nil {
		t.AllowedAddresses = make([]netip.Prefix, len(s.AllowedAddresses))
		for i, block := range s.AllowedAddresses {
			t.AllowedAddresses[i], _ = parseBlock(block)
		}
	}
	if s.ExpiresAt != nil {
		t.ExpiresAt = truncateExpiry(*s.ExpiresAt)
	}
}

func (t AgentToken) same(u AgentToken) bool {
	return t.hash == u.hash && t.Description == u.Description && slices.Equal(t.AllowedAddresses, u.AllowedAddresses) && t.ExpiresAt.Equal(u.ExpiresAt)
}
