package connections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/sourcehost"
)

const (
	// refreshBefore is how long before its end a token of an app is replaced.
	refreshBefore = 10 * time.Minute
	// usableBefore is how long before its end a token is still used while another replica creates the next one.
	usableBefore = time.Minute
	// leaseTime is how long a replica has to create a token before another one tries.
	leaseTime = 20 * time.Second
	// pollEvery is how often a replica looks for the token that another one creates.
	pollEvery = 50 * time.Millisecond
)

// TokenFor returns the token with which the server itself uses the API and the repositories of the host of a
// repository, or a NotFound error when the organization has no connection to it.
func (s *Service) TokenFor(ctx context.Context, organizationID, repositoryURL string) (string, error) {
	c, repo, err := s.For(ctx, organizationID, repositoryURL)
	if err == nil && c == nil {
		err = errNotConnected(repo)
	}
	if err != nil {
		return "", err
	}
	return s.token(ctx, c)
}

// CloneToken returns a token with which jobs clone one repository: the clone token of the connection, or one of its app
// that can only read this repository. Without either it returns a NotFound error: the server's own token is not for jobs.
func (s *Service) CloneToken(ctx context.Context, organizationID, repositoryURL string) (string, error) {
	c, repo, err := s.For(ctx, organizationID, repositoryURL)
	switch {
	case err != nil:
		return "", err
	case c != nil && c.sealedCloneToken != "":
		return s.open(c, "clone token", c.sealedCloneToken, c.cloneTokenContext())
	case c != nil && c.AppID != "":
		return s.appToken(ctx, c, repo.Name)
	}
	return "", core.Errorf(core.NotFound, "The organization has no token for jobs to clone from %s with; its source connection can have a clone_token", repo.Host)
}

// token returns the server's own token of a connection.
func (s *Service) token(ctx context.Context, c *Connection) (string, error) {
	if c.AppID != "" {
		return s.appToken(ctx, c, "")
	}
	return s.open(c, "token", c.sealedToken, c.tokenContext())
}

func (s *Service) open(c *Connection, what, sealed, context string) (string, error) {
	text, err := s.key.Open(sealed, context)
	if err != nil {
		return "", fmt.Errorf("read the %s of source connection %s: %w", what, c.ID, err)
	}
	return string(text), nil
}

// appToken returns a token of a connection's app, for all repositories or to read one. It creates one when the stored
// one ends soon, unless another process does: then it waits for that one.
func (s *Service) appToken(ctx context.Context, c *Connection, repository string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*leaseTime)
	defer cancel()
	for {
		stored, lease, err := s.leaseToken(ctx, c, repository)
		switch {
		case err != nil:
			return "", err
		case lease != "":
			return s.createToken(ctx, c, repository, lease)
		case stored != "":
			return s.open(c, "app token", stored, c.tokenContext()+":"+repository)
		}
		select {
		case <-ctx.Done():
			return "", core.Errorf(core.Unavailable, "A token of the source connection to %s is being created; try again", c.Host)
		case <-time.After(pollEvery):
		}
	}
}

// leaseToken returns the stored token, encrypted, if it can be used; or a lease to create the next one; or neither
// while another process has the lease.
func (s *Service) leaseToken(ctx context.Context, c *Connection, repository string) (sealed, lease string, err error) {
	var expires, leased time.Time
	read := func(q *db.Q) error {
		sealed, lease, expires, leased = "", "", time.Time{}, time.Time{}
		err := q.QueryRow(`SELECT token, expires_at, leased_until FROM source_connection_tokens WHERE connection_id = $1 AND repository = $2`, c.ID, repository).
			Scan(db.ToText(&sealed), db.ToTime(&expires), db.ToTime(&leased))
		if errors.Is(err, db.ErrNoRows) {
			err = nil
		}
		if expires.Before(s.clock().Add(usableBefore)) {
			sealed = ""
		}
		return err
	}
	free := func() bool {
		now := s.clock()
		return expires.Before(now.Add(refreshBefore)) && leased.Before(now)
	}
	if err := s.db.Read(ctx, read); err != nil || !free() {
		return sealed, "", err
	}
	err = s.db.Write(ctx, func(q *db.Q) error {
		_, err := q.Exec(`INSERT INTO source_connection_tokens (connection_id, repository) VALUES ($1, $2) ON CONFLICT DO NOTHING`, c.ID, repository)
		if err != nil {
			return err
		}
		if err := read(q); err != nil || !free() {
			return err
		}
		// The condition holds for one of two transactions that read the same lease.
		id, now := core.NewID(), s.clock()
		n, err := q.Exec(`
			UPDATE source_connection_tokens SET lease = $3, leased_until = $4
			WHERE connection_id = $1 AND repository = $2 AND (leased_until IS NULL OR leased_until < $5)`,
			c.ID, repository, id, db.Micros(now.Add(leaseTime)), db.Micros(now))
		if n > 0 {
			lease = id
		}
		return err
	})
	return sealed, lease, err
}

// createToken creates a token and stores it. After a failure the next caller tries again.
func (s *Service) createToken(ctx context.Context, c *Connection, repository, lease string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTime/2)
	defer cancel()
	made, err := s.newAppToken(ctx, c, repository)
	if err != nil {
		release := func(q *db.Q) error {
			_, err := q.Exec(`UPDATE source_connection_tokens SET leased_until = NULL WHERE connection_id = $1 AND repository = $2 AND lease = $3`, c.ID, repository, lease)
			return err
		}
		return "", errors.Join(err, s.db.Write(context.WithoutCancel(ctx), release))
	}
	sealed, err := s.key.Seal([]byte(made.Token), c.tokenContext()+":"+repository)
	if err != nil {
		return "", err
	}
	err = s.db.Write(context.WithoutCancel(ctx), func(q *db.Q) error {
		now := s.clock()
		_, err := q.Exec(`DELETE FROM source_connection_tokens WHERE connection_id = $1 AND repository <> $2 AND expires_at < $3`, c.ID, repository, db.Micros(now))
		if err != nil {
			return err
		}
		_, err = q.Exec(`
			UPDATE source_connection_tokens SET token = $4, expires_at = $5, leased_until = NULL
			WHERE connection_id = $1 AND repository = $2 AND lease = $3`, c.ID, repository, lease, sealed, db.Micros(made.ExpiresAt))
		return err
	})
	return made.Token, err
}

func (s *Service) newAppToken(ctx context.Context, c *Connection, repository string) (sourcehost.AppToken, error) {
	text, err := s.open(c, "private key", c.sealedPrivateKey, c.privateKeyContext())
	if err != nil {
		return sourcehost.AppToken{}, err
	}
	key, err := sourcehost.ParseAppKey(text)
	if err != nil {
		return sourcehost.AppToken{}, fmt.Errorf("the private key of source connection %s %w", c.ID, err)
	}
	app := sourcehost.GitHubApp{AppID: c.AppID, InstallationID: c.InstallationID, Key: key}
	return app.NewToken(ctx, c.APIURL, repository, s.clock(), s.client)
}
