package account

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
	"stackyard/internal/platform/seal"
)

// LinkLifetime is how long a sign-in link can be used.
const LinkLifetime = time.Hour

var errLink = core.Errorf(core.Gone, "This sign-in link has been used, or is older than an hour. The server prints a new one when it starts.")

// FirstLink creates a sign-in link for the first administrator while no user has a password. It returns the
// link's token, which cannot be read again, and the user. The token is "" if a user has a password or if there
// is no administrator.
func (s *Service) FirstLink(ctx context.Context) (token string, user identity.User, err error) {
	err = s.db.Write(ctx, func(q *db.Q) error {
		token = ""
		var known bool
		if err := q.QueryRow(`SELECT EXISTS (SELECT 1 FROM users WHERE password_hash IS NOT NULL)`).Scan(&known); err != nil || known {
			return err
		}
		user, err = firstAdministrator(q)
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		now := s.clock()
		if _, err := q.Exec(`DELETE FROM sign_in_links WHERE expires_at <= $1`, db.Micros(now)); err != nil {
			return err
		}
		token = seal.NewToken("")
		_, err = q.Exec(`INSERT INTO sign_in_links (hash, user_id, expires_at) VALUES ($1, $2, $3)`,
			seal.HashToken(token), user.ID, db.Micros(now.Add(LinkLifetime)))
		return err
	})
	return token, user, err
}

func firstAdministrator(q *db.Q) (identity.User, error) {
	return db.One(q, identity.ScanUser, `
		SELECT `+identity.UserColumns+`
		FROM memberships m
		JOIN users u ON u.id = m.user_id
		WHERE m.role = $1
		ORDER BY m.created_at, u.created_at, u.id
		LIMIT 1`, identity.Admin)
}

// LinkUser returns the user of a sign-in link, or a Gone error if the link can no longer be used.
func (s *Service) LinkUser(ctx context.Context, token string) (user identity.User, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		user, err = linkUser(q, token, s.clock())
		return err
	})
	return user, err
}

func linkUser(q *db.Q, token string, now time.Time) (identity.User, error) {
	user, err := db.One(q, identity.ScanUser, `
		SELECT `+identity.UserColumns+`
		FROM sign_in_links l
		JOIN users u ON u.id = l.user_id
		WHERE l.hash = $1 AND l.expires_at > $2`, seal.HashToken(token), db.Micros(now))
	if errors.Is(err, db.ErrNoRows) {
		err = errLink
	}
	return user, err
}

// UseLink sets the password of the link's user and starts a session, like SignIn. It works once: all links of
// the user end.
func (s *Service) UseLink(ctx context.Context, token, password string, from Origin, before string) (value string, err error) {
	user, err := s.LinkUser(ctx, token)
	if err != nil {
		return "", err
	}
	var problems core.Problems
	CheckNewPassword(&problems, user.Email, password)
	if err := problems.Err(); err != nil {
		return "", err
	}
	hash, err := seal.HashPassword(password)
	if err != nil {
		return "", err
	}
	value = seal.NewToken("")
	err = s.db.Write(ctx, func(q *db.Q) error {
		// The deleted row is the proof: of two concurrent uses of a link, one deletes nothing.
		used, err := q.Exec(`DELETE FROM sign_in_links WHERE hash = $1 AND expires_at > $2`, seal.HashToken(token), db.Micros(s.clock()))
		if err != nil {
			return err
		}
		if used == 0 {
			return errLink
		}
		if _, err := q.Exec(`DELETE FROM sign_in_links WHERE user_id = $1`, user.ID); err != nil {
			return err
		}
		if err := ReplacePassword(q, user.ID, hash); err != nil {
			return err
		}
		return s.insert(q, user.ID, ByLink, from, before, value)
	})
	return value, err
}
