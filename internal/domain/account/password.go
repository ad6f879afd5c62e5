package account

import (
	"context"
	"strings"
	"unicode/utf8"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

// MinPassword is the minimum length of a password that a user chooses, in characters. It does not apply to
// organization files.
const MinPassword = 10

// CheckNewPassword reports problems of a password that a user chose.
func CheckNewPassword(p *core.Problems, email, password string) {
	switch {
	case utf8.RuneCountInString(password) < MinPassword:
		p.Add("new_password", "must have at least %d characters", MinPassword)
	case len(password) > seal.MaxPassword:
		p.Add("new_password", "must not be longer than %d bytes", seal.MaxPassword)
	case strings.EqualFold(password, email):
		p.Add("new_password", "must not be your email")
	}
}

// HasPassword reports whether a user can sign in with a password.
func (s *Service) HasPassword(ctx context.Context, userID string) (bool, error) {
	var known credentials
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		known, err = credentialsByID(q, userID)
		return err
	})
	return known.passwordHash != "", err
}

// ChangePassword sets a new password and ends all other sessions of the user. A user with a password must give
// it; guesses count like those at sign-in.
func (s *Service) ChangePassword(ctx context.Context, here *Session, current, password string, from Origin) error {
	var known credentials
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		known, err = credentialsByID(q, here.UserID)
		return err
	})
	if err != nil {
		return err
	}
	if known.passwordHash != "" {
		attempt, err := s.beginAttempt(ctx, known.email, from)
		if err != nil {
			return err
		}
		if !seal.CheckPassword(known.passwordHash, current) {
			if err := s.recordFailure(ctx, known.userID, attempt); err != nil {
				return err
			}
			return core.Problems{{Field: "current_password", Code: "is wrong"}}.Err()
		}
		if err := s.attemptSucceeded(ctx, attempt); err != nil {
			return err
		}
	}
	var problems core.Problems
	CheckNewPassword(&problems, known.email, password)
	if err := problems.Err(); err != nil {
		return err
	}
	hash, err := seal.HashPassword(password)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(q *db.Q) error {
		if err := setPasswordHash(q, here.UserID, hash); err != nil {
			return err
		}
		return deleteOtherSessions(q, here.UserID, here.ID)
	})
}
