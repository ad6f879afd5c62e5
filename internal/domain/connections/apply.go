package connections

import (
	"fmt"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// A Spec describes a source connection in the organization file. The host name identifies it. Fields that the file
// leaves out keep their value. A new connection gets defaults from the host name and needs a token or an app.
type Spec struct {
	Line     int    `yaml:"-"`
	Host     string `yaml:"host"` // as in repository URLs: github.com
	Provider string `yaml:"provider"`
	APIURL   string `yaml:"api_url"`
	Token    string `yaml:"token"`
	// CloneToken is the token that jobs clone with.
	CloneToken     string `yaml:"clone_token"`
	AppID          string `yaml:"app_id"`
	InstallationID string `yaml:"installation_id"`
	PrivateKey     string `yaml:"private_key"`
}

// Check reports errors in the source connections of one organization.
func Check(c *core.Complaints, specs []Spec) {
	for _, s := range specs {
		if !checkHost(s.Host) {
			c.Add(s.Line, "the host of a source connection must be a name in lower case as in repository URLs, such as github.com, not %q", s.Host)
		}
		s.change().check(s.complain(c))
	}
	core.ComplainTwice(c, specs, "source connection", func(s Spec) (int, string) { return s.Line, s.Host })
}

func (s Spec) complain(c *core.Complaints) report {
	return func(field, format string, args ...any) {
		c.Add(s.Line, "source connection %s: %s %s", s.Host, field, fmt.Sprintf(format, args...))
	}
}

// change returns what the spec sets.
func (s Spec) change() change {
	given := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	return change{
		provider: given(s.Provider), apiURL: given(s.APIURL), token: given(s.Token), cloneToken: given(s.CloneToken),
		appID: given(s.AppID), installationID: given(s.InstallationID), privateKey: given(s.PrivateKey),
	}
}

// Apply creates or updates an organization's source connections. It keeps what the specs do not name. key encrypts
// credentials. The specs have passed Check.
func Apply(in identity.Applying, key seal.Key, specs []Spec) error {
	for _, spec := range specs {
		c, err := byHost(in.Q, in.Org.ID, spec.Host)
		if err != nil {
			return err
		}
		created := c == nil
		if created {
			c = newConnection(in.Org.ID, spec.Host, in.Now)
		}
		before := *c
		if err := c.apply(spec.change(), key); err != nil {
			return err
		}
		var problems core.Complaints
		if c.checkComplete(spec.complain(&problems)); problems.Err() != nil {
			c.checkComplete(spec.complain(in.Complaints))
			continue
		}
		name := in.Org.Slug + "/" + spec.Host
		switch {
		case created:
			in.Changes.Created("source_connection", name)
		case *c != before:
			c.UpdatedAt = in.Now
			in.Changes.Changed("source_connection", name)
		default:
			continue
		}
		if err := save(in.Q, c); err != nil {
			return err
		}
	}
	return nil
}
