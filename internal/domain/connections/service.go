package connections

import (
	"context"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/sourcehost"
)

// create adds a connection to a host.
func (s *Service) create(ctx context.Context, organizationID, host string, ch change) (*Connection, error) {
	var problems core.Problems
	if !checkHost(host) {
		problems.Add("host", "must be a name in lower case as in repository URLs, such as github.com")
	}
	ch.check(problems.Add)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	c := newConnection(organizationID, host, s.clock())
	if err := c.apply(ch, s.key); err != nil {
		return nil, err
	}
	c.checkComplete(problems.Add)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	err := s.db.Write(ctx, func(q *db.Q) error {
		n, err := count(q, organizationID)
		if err != nil {
			return err
		}
		if n >= maxConnections {
			return core.Errorf(core.Unprocessable, "An organization can have %d source connections", maxConnections)
		}
		return save(q, c)
	})
	if db.IsUnique(err) {
		problems.Add("host", "has a connection already")
		err = problems.Err()
	}
	return c, err
}

// update changes a connection. The stored credentials go to no other URL: a change needs new ones.
func (s *Service) update(ctx context.Context, organizationID, id string, ch change) (updated *Connection, err error) {
	var problems core.Problems
	ch.check(problems.Add)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		c, err := byID(q, organizationID, id)
		if err != nil {
			return err
		}
		before := *c
		if err := c.apply(ch, s.key); err != nil {
			return err
		}
		var problems core.Problems
		if c.APIURL != before.APIURL && !filled(ch.token) && !filled(ch.privateKey) {
			problems.Add("api_url", "can be changed only together with token or private_key")
		}
		c.checkComplete(problems.Add)
		if err := problems.Err(); err != nil {
			return err
		}
		updated = c
		if *c == before {
			return nil
		}
		c.UpdatedAt = s.clock()
		return save(q, c)
	})
	return updated, err
}

func (s *Service) delete(ctx context.Context, c *Connection) error {
	return s.db.Write(ctx, func(q *db.Q) error { return remove(q, c) })
}

// For returns the connection of an organization for a repository, with the parsed URL. It returns nil when the URL names
// no host or the organization has no connection to it.
func (s *Service) For(ctx context.Context, organizationID, repositoryURL string) (c *Connection, repo sourcehost.Repository, err error) {
	if repo, err = sourcehost.ParseRepository(repositoryURL); err != nil {
		return nil, repo, nil
	}
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		c, err = byHost(q, organizationID, repo.Host)
		return err
	})
	return c, repo, err
}

// HostFor returns the API of the source host of a repository, or a NotFound error when the organization has no
// connection to it.
func (s *Service) HostFor(ctx context.Context, organizationID, repositoryURL string) (sourcehost.Host, sourcehost.Repository, error) {
	c, repo, err := s.For(ctx, organizationID, repositoryURL)
	if err == nil && c == nil {
		err = errNotConnected(repo)
	}
	if err != nil {
		return nil, repo, err
	}
	host, err := s.host(ctx, c)
	return host, repo, err
}

func errNotConnected(repo sourcehost.Repository) error {
	if repo.Host == "" {
		return core.Errorf(core.NotFound, "The repository is on no source host")
	}
	return core.Errorf(core.NotFound, "The organization has no source connection to %s", repo.Host)
}

// host returns the API that a connection reaches.
func (s *Service) host(ctx context.Context, c *Connection) (sourcehost.Host, error) {
	token, err := s.token(ctx, c)
	if err != nil {
		return nil, err
	}
	return sourcehost.New(c.Provider, c.APIURL, sourcehost.Credentials{Token: token, Installation: c.AppID != ""}, s.client)
}
