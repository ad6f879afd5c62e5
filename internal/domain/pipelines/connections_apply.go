package pipelines

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
	"stackyard/internal/platform/sourcehost"
)

// A ConnectionSpec describes a source host in the organization file. The host name identifies it. Fields that
// the file leaves out keep their value. A new connection gets defaults from the host name and needs a token.
type ConnectionSpec struct {
	Line     int    `yaml:"-"`
	Host     string `yaml:"host"` // as in repository URLs: github.com
	Provider string `yaml:"provider"`
	APIURL   string `yaml:"api_url"`
	Token    string `yaml:"token"`
	// CloneToken is the token that jobs clone with.
	CloneToken string `yaml:"clone_token"`
}

// CheckConnections reports errors in the source connections of one organization.
func CheckConnections(c *core.Complaints, specs []ConnectionSpec) {
	for _, s := range specs {
		s.Check(c)
	}
	core.ComplainTwice(c, specs, "source connection", func(s ConnectionSpec) (int, string) { return s.Line, s.Host })
}

// Check reports errors in the spec that can be found without a database.
func (s ConnectionSpec) Check(c *core.Complaints) {
	repo, err := sourcehost.ParseRepository("https://" + s.Host + "/owner/name")
	if err != nil || repo.Host != s.Host {
		c.Add(s.Line, "the host of a source connection must be a name in lower case as in repository URLs, such as github.com, not %q", s.Host)
	}
	if s.Provider != "" && !slices.Contains(githubProviders, s.Provider) {
		c.Add(s.Line, "the provider of a source connection must be one of %s, not %q", strings.Join(githubProviders, ", "), s.Provider)
	}
	if u, err := url.Parse(s.APIURL); s.APIURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
		c.Add(s.Line, "the api_url of a source connection must be a URL without credentials, such as %s", sourcehost.GitHubAPI("github.com"))
	}
}

// ApplyConnections creates or updates an organization's connections to source hosts. It keeps what the specs do
// not name. key encrypts tokens. The specs have passed Check.
func ApplyConnections(in identity.Applying, key seal.Key, specs []ConnectionSpec) error {
	for _, spec := range specs {
		name := in.Org.Slug + "/" + spec.Host
		c, err := connectionTo(in.Q, in.Org.ID, spec.Host)
		created := errors.Is(err, db.ErrNoRows)
		if err != nil && !created {
			return err
		}
		if created {
			if spec.Token == "" {
				in.Complaints.Add(spec.Line, "the source connection to %s needs a token", spec.Host)
				continue
			}
			c = newConnection(in.Org, spec.Host, in.Now)
		}
		was := c
		if err := spec.applyTo(&c, key); err != nil {
			return err
		}
		switch {
		case created:
			in.Changes.Created("source_connection", name)
		case c != was:
			in.Changes.Changed("source_connection", name)
		default:
			continue
		}
		if err := saveConnection(in.Q, c); err != nil {
			return err
		}
	}
	return nil
}

// newConnection returns a connection to a host with defaults derived from its name.
func newConnection(org *identity.Organization, host string, now time.Time) connection {
	c := connection{
		id:             core.NewID(),
		organizationID: org.ID,
		host:           host,
		provider:       sourcehost.ProviderGitHubEnterprise,
		apiURL:         sourcehost.GitHubAPI(host),
		createdAt:      now,
	}
	if host == "github.com" {
		c.provider = sourcehost.ProviderGitHub
	}
	return c
}

// applyTo writes the fields that the spec gives into c.
func (s ConnectionSpec) applyTo(c *connection, key seal.Key) error {
	c.provider = cmp.Or(s.Provider, c.provider)
	c.apiURL = cmp.Or(s.APIURL, c.apiURL)
	if err := sealNew(&c.sealedToken, s.Token, key, c.sealContext()); err != nil {
		return fmt.Errorf("seal the token of source connection %s: %w", c.id, err)
	}
	if err := sealNew(&c.sealedCloneToken, s.CloneToken, key, c.cloneSealContext()); err != nil {
		return fmt.Errorf("seal the clone token of source connection %s: %w", c.id, err)
	}
	return nil
}

// sealNew encrypts a given token. It does not encrypt the same token again, because that would look like a
// change.
func sealNew(sealed *string, given string, key seal.Key, context string) (err error) {
	if given == "" {
		return nil
	}
	if *sealed != "" {
		was, err := key.Open(*sealed, context)
		if err != nil || string(was) == given {
			return err
		}
	}
	*sealed, err = key.Seal([]byte(given), context)
	return err
}
