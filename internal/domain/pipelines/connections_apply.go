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

// A ConnectionSpec is what the organization file says about a source host, which is known by its name.
// What it does not say is left as it is; a new connection has what the host's name suggests, and needs
// a token.
type ConnectionSpec struct {
	Line     int    `yaml:"-"`
	Host     string `yaml:"host"` // as in repository URLs: github.com
	Provider string `yaml:"provider"`
	APIURL   string `yaml:"api_url"`
	Token    string `yaml:"token"`
	// CloneToken is what jobs get to clone with.
	CloneToken string `yaml:"clone_token"`
}

// CheckConnections complains about what is wrong with the source connections of one organization.
func CheckConnections(c *core.Complaints, specs []ConnectionSpec) {
	for _, s := range specs {
		s.Check(c)
	}
	core.ComplainTwice(c, specs, "source connection", func(s ConnectionSpec) (int, string) { return s.Line, s.Host })
}

// Check complains about what is wrong with the spec itself.
func (s ConnectionSpec) Check(c *core.Complaints) {
	repo, err := sourcehost.ParseRepository("https://" + s.Host + "/owner/name")
	if err != nil || repo.Host != s.Host {
		c.Add(s.Line, "the host of a source connection must be a name in lower case as in repository URLs, such as github.com, not %q", s.Host)
	}
	if s.Provider != "" && !slices.Contains(githubs, s.Provider) {
		c.Add(s.Line, "the provider of a source connection must be one of %s, not %q", strings.Join(githubs, ", "), s.Provider)
	}
	if u, err := url.Parse(s.APIURL); s.APIURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil) {
		c.Add(s.Line, "the api_url of a source connection must be a URL without credentials, such as %s", sourcehost.GitHubAPI("github.com"))
	}
}

// ApplyConnections makes the connections of an organization to source hosts what their specs say, and
// leaves alone what they do not name. Tokens are sealed under the key. The specs have passed Check.
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
		if err := spec.to(&c, key); err != nil {
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

// newConnection returns a connection to a host as its name suggests it.
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

// to writes what the spec says into a connection.
func (s ConnectionSpec) to(c *connection, key seal.Key) error {
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

// sealNew seals a token that is given. One that is the same is not sealed again, which would look like a
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
