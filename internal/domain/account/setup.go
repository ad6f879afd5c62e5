package account

import (
	"context"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// SetUpLifetime is how long a set-up link can be used.
const SetUpLifetime = 24 * time.Hour

var errSetUp = core.Errorf(core.Gone, "This set-up link has been used, or is older than a day. A server that has no organization prints a new one when it starts.")

// SetUpLink creates a link with which the first person sets up an installation that has neither organizations
// nor users. It returns the link's token, which cannot be read again, or "" if there is anything already.
// Earlier links stay valid until they expire: each replica prints its own.
func (s *Service) SetUpLink(ctx context.Context) (token string, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		token = ""
		empty, err := emptyInstallation(q)
		if err != nil || !empty {
			return err
		}
		now := s.clock()
		if _, err := q.Exec(`DELETE FROM setup_links WHERE expires_at <= $1`, db.Micros(now)); err != nil {
			return err
		}
		token = seal.NewToken("")
		_, err = q.Exec(`INSERT INTO setup_links (hash, expires_at) VALUES ($1, $2)`, seal.HashToken(token), db.Micros(now.Add(SetUpLifetime)))
		return err
	})
	return token, err
}

// CheckSetUpLink returns a Gone error if a set-up link can no longer be used.
func (s *Service) CheckSetUpLink(ctx context.Context, token string) error {
	return s.db.Read(ctx, func(q *db.Q) error {
		usable, err := db.Count(q, `SELECT COUNT(*) FROM setup_links WHERE hash = $1 AND expires_at > $2`, seal.HashToken(token), db.Micros(s.clock()))
		if err == nil && usable == 0 {
			err = errSetUp
		}
		return err
	})
}

// UseSetUpLink ends all set-up links in the transaction that sets up the installation. It returns a Gone error
// if the link can no longer be used, or if there is an organization or a user now.
func (s *Service) UseSetUpLink(q *db.Q, token string) error {
	if err := q.LockName("set-up"); err != nil {
		return err
	}
	used, err := q.Exec(`DELETE FROM setup_links WHERE hash = $1 AND expires_at > $2`, seal.HashToken(token), db.Micros(s.clock()))
	if err != nil {
		return err
	}
	empty, err := emptyInstallation(q)
	if err != nil {
		return err
	}
	if used == 0 || !empty {
		return errSetUp
	}
	_, err = q.Exec(`DELETE FROM setup_links`)
	return err
}

// emptyInstallation reports whether there is neither an organization nor a user.
func emptyInstallation(q *db.Q) (bool, error) {
	organizations, err := identity.AnyOrganization(q)
	if err != nil || organizations {
		return false, err
	}
	var users bool
	err = q.QueryRow(`SELECT EXISTS (SELECT 1 FROM users)`).Scan(&users)
	return !users, err
}
