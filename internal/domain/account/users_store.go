package account

import (
	"strings"

	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// NormalizeEmail returns an email in the form in which users have it: lower-case, without spaces around it.
func NormalizeEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// UserByEmail returns the user with a normalized email, or [db.ErrNoRows].
func UserByEmail(q *db.Q, email string) (identity.User, error) {
	return db.One(q, identity.ScanUser, `SELECT `+identity.UserColumns+` FROM users u WHERE u.email = $1`, email)
}

// FreeUserID returns the id of a new user, as [db.FreeID] does.
func FreeUserID(q *db.Q, given string) (id string, free bool, err error) {
	return db.FreeID(q, "users", given)
}

// InsertUser adds a user; an empty passwordHash is no password.
func InsertUser(q *db.Q, u identity.User, passwordHash string) error {
	_, err := q.Exec(`
		INSERT INTO users (id, email, name, password_hash, created_at)
		VALUES ($1, $2, $3, $4, $5)`,
		u.ID, u.Email, u.Name, db.Text(passwordHash), db.Micros(u.CreatedAt))
	return err
}

// RenameUser writes the name of a user.
func RenameUser(q *db.Q, u identity.User) error {
	_, err := userRows.Exec(q, u.ID, `UPDATE users SET name = $2 WHERE id = $1`, u.ID, u.Name)
	return err
}

// ReplacePassword replaces a user's password, which ends all sessions of the user.
func ReplacePassword(q *db.Q, userID, hash string) error {
	if err := setPasswordHash(q, userID, hash); err != nil {
		return err
	}
	return deleteOtherSessions(q, userID, "")
}

// PasswordHashes returns the password hashes of users by email; "" means no password.
func PasswordHashes(q *db.Q, emails []string) (map[string]string, error) {
	in, arg := q.In("email", 1, emails)
	hashes := make(map[string]string, len(emails))
	err := db.Each(q, func(scan db.Scan) error {
		var email, hash string
		err := scan(&email, db.ToText(&hash))
		hashes[email] = hash
		return err
	}, `SELECT email, password_hash FROM users WHERE `+in, arg)
	return hashes, err
}

// credentials are what a user signs in with.
type credentials struct {
	userID       string
	email        string
	passwordHash string // "" for none
}

const selectCredentials = `SELECT id, email, password_hash FROM users`

func scanCredentials(scan db.Scan) (c credentials, err error) {
	return c, scan(&c.userID, &c.email, db.ToText(&c.passwordHash))
}

func credentialsByEmail(q *db.Q, email string) (credentials, error) {
	return db.One(q, scanCredentials, selectCredentials+` WHERE email = $1`, email)
}

func credentialsByID(q *db.Q, userID string) (credentials, error) {
	return db.One(q, scanCredentials, selectCredentials+` WHERE id = $1`, userID)
}

func setPasswordHash(q *db.Q, userID, hash string) error {
	_, err := userRows.Exec(q, userID, `UPDATE users SET password_hash = $2 WHERE id = $1`, userID, hash)
	return err
}
