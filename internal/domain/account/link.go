package account

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
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
		token = seal.NewToken("")
		return s.insertLink(q, token, user.ID)
	})
	return token, user, err
}

// SignInLink creates a link with which a user who has a password signs in without typing it. Its token has 80 random
// bits, few enough to type.
func (s *Service) SignInLink(ctx context.Context, email string) (token string, err error) {
	token = strings.ToLower(rand.Text()[:16])
	err = s.db.Write(ctx, func(q *db.Q) error {
		user, err := db.One(q, identity.ScanUser, `SELECT `+identity.UserColumns+` FROM users u WHERE u.email = $1 AND u.password_hash IS NOT NULL`, email)
		if errors.Is(err, db.ErrNoRows) {
			err = core.Errorf(core.NotFound, "No user with a password has the email %s.", email)
		}
		if err != nil {
			return err
		}
		return s.insertLink(q, token, user.ID)
	})
	return token, err
}

func (s *Service) insertLink(q *db.Q, token, userID string) error {
	now := s.clock()
	if _, err := q.Exec(`DELETE FROM sign_in_links WHERE expires_at <= $1`, db.Micros(now)); err != nil {
		return err
	}
	_, err := q.Exec(`INSERT INTO sign_in_links (hash, user_id, expires_at) VALUES ($1, $2, $3)`,
		seal.HashToken(token), userID, db.Micros(now.Add(LinkLifetime)))
	return err
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

// A Link is what a sign-in link leads to.
type Link struct {
	User identity.User
	// HasPassword is false for a user who chooses one with the link.
	HasPassword bool
}

func scanLink(scan db.Scan) (Link, error) {
	var l Link
	return l, scan(append([]any{&l.HasPassword}, identity.UserDest(&l.User)...)...)
}

// Link returns what the token of a sign-in link leads to, or a Gone error if the link can no longer be used.
func (s *Service) Link(ctx context.Context, token string) (l Link, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		l, err = db.One(q, scanLink, `
			SELECT u.password_hash IS NOT NULL, `+identity.UserColumns+`
			FROM sign_in_links l
			JOIN users u ON u.id = l.user_id
			WHERE l.hash = $1 AND l.expires_at > $2`, seal.HashToken(token), db.Micros(s.clock()))
		if errors.Is(err, db.ErrNoRows) {
			err = errLink
		}
		return err
	})
	return l, err
}

// UseLink starts a session of the link's user, like SignIn. A user who has no password gets the given one. It works
// once: all links of the user end.
func (s *Service) UseLink(ctx context.Context, token, password string, from Origin, before string) (value string, err error) {
	l, err := s.Link(ctx, token)
	if err != nil {
		return "", err
	}
	user, hash := l.User, ""
	if !l.HasPassword {
		var problems core.Problems
		CheckNewPassword(&problems, user.Email, password)
		if err := problems.Err(); err != nil {
			return "", err
		}
		if hash, err = seal.HashPassword(password); err != nil {
			return "", err
		}
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
		if hash != "" {
			if err := ReplacePassword(q, user.ID, hash); err != nil {
				return err
			}
		}
		return s.insert(q, user.ID, ByLink, from, before, value)
	})
	return value, err
}
