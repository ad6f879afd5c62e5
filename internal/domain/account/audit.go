package account

import (
	"context"
	"errors"

	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

// What the audit trail records of users, their tokens and sessions, in each organization of the user or the token.
var (
	userRows = &audit.Rows{
		Type: "user", Table: "users", Orgs: "SELECT m.organization_id FROM memberships m WHERE m.user_id = $1", Name: "email",
		Columns: "name, password_hash secret password",
	}
	tokenRows = &audit.Rows{
		Type: "access_token", Table: "access_tokens", Name: "description",
		Orgs:    "SELECT a.organization_id FROM access_token_organizations a WHERE a.token_id = $1",
		Columns: "description, user_id, scopes json, expires_at time, hash secret token",
	}
	sessionRows = &audit.Rows{
		Type: "session", Table: "sessions", Name: "(SELECT u.email FROM users u WHERE u.id = user_id)",
		Orgs:    "SELECT m.organization_id FROM memberships m JOIN sessions s ON s.user_id = m.user_id WHERE s.id = $1",
		Columns: "method",
	}
)

// record writes an entry about a user to the trail of each organization of the user, whose email is the name of the
// subject. If acted is set, the user is the actor: someone who has just signed in.
func record(q *db.Q, userID string, acted bool, e audit.Entry) error {
	user, err := db.One(q, identity.ScanUser, `SELECT `+identity.UserColumns+` FROM users u WHERE u.id = $1`, userID)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	e.Subject.Name = user.Email
	if acted {
		e.Actor = &audit.Actor{Type: audit.User, ID: user.ID, Name: user.Name, Email: user.Email}
	}
	orgs, err := identity.OrganizationsOf(q, userID)
	if err != nil {
		return err
	}
	for _, org := range orgs {
		e.OrganizationID = org.ID
		if err := audit.Write(q, e); err != nil {
			return err
		}
	}
	return nil
}

// recordFailure records that someone gave a wrong password of a user; "" is an unknown one. The number of records is
// bounded by that of attempts. It writes for unknown users too, so that the time of the response reveals nothing.
func (s *Service) recordFailure(ctx context.Context, userID string, a attempt) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := a.byBoth.Touch(q); err != nil || userID == "" {
			return err
		}
		return record(q, userID, false, audit.Entry{Action: "session.failed", Subject: audit.Subject{Type: "user", ID: userID}})
	})
}
