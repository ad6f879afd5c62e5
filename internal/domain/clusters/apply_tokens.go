package clusters

import (
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
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
	if strings.TrimSpace(s.Description) == "" || utf8.RuneCountInString(s.Description) > maxName {
		c.Add(s.Line, "an agent token needs a description of 1 to %d characters", maxName)
	}
	if len(s.Token) > maxName || strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		c.Add(s.Line, "a token must have at most %d characters and no spaces", maxName)
	}
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
	known, err := a.knownToken(c, spec)
	if core.KindOf(err) == core.NotFound {
		return a.newToken(c, spec)
	}
	if err != nil {
		return err
	}
	if known.ClusterID != c.ID {
		a.Complaints.Add(spec.Line, "this token already belongs to another cluster")
		return nil
	}
	if id, given := core.ParseID(spec.ID); given && id != known.ID {
		a.Complaints.Add(spec.Line, "the agent token %q exists with the id %s, which cannot be changed", known.Description, known.ID)
		return nil
	}
	wanted := known
	spec.applyTo(&wanted)
	if wanted.same(known) {
		return nil
	}
	a.Changes.Changed("agent_token", a.name(c, wanted.Description))
	if err := updateToken(a.Q, wanted); err != nil {
		return err
	}
	return addressesChanged(a.Q, wanted, known.AllowedAddresses, a.Now)
}

// knownToken finds the token of a spec: by its value in any cluster, else by its description in this cluster.
func (a *applier) knownToken(c Cluster, spec AgentTokenSpec) (AgentToken, error) {
	if spec.Token != "" {
		known, err := tokenByHash(a.Q, seal.HashToken(spec.Token))
		if core.KindOf(err) != core.NotFound {
			return known, err
		}
	}
	return tokenByDescription(a.Q, c.ID, spec.Description)
}

func (a *applier) newToken(c Cluster, spec AgentTokenSpec) error {
	id, ok, err := db.FreeID(a.Q, "agent_tokens", spec.ID)
	if err != nil {
		return err
	}
	if !ok {
		a.Complaints.Add(spec.Line, "the id %s belongs to another agent token", id)
		return nil
	}
	name := a.name(c, spec.Description)
	a.Changes.Created("agent_token", name)
	if spec.Token == "" {
		spec.Token = seal.NewToken(identity.AgentTokenPrefix)
		a.Changes.Token("agent_token", name, spec.Token)
	}
	t := AgentToken{ID: id, ClusterID: c.ID, CreatedAt: a.Now}
	spec.applyTo(&t)
	return insertToken(a.Q, t)
}

// applyTo writes the fields that the spec gives into t.
func (s AgentTokenSpec) applyTo(t *AgentToken) {
	t.Description = s.Description
	if s.Token != "" {
		t.hash = seal.HashToken(s.Token)
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
