package account

import (
	"context"
	"errors"
	"time"

	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/seal"
)

const (
	// idleTimeout is how long a session lasts without a request.
	idleTimeout = 14 * 24 * time.Hour
	// MaxLifetime is how long a session lasts at most.
	MaxLifetime = 90 * 24 * time.Hour
	// seenResolution is the precision of SeenAt, so that most requests write nothing.
	seenResolution = 5 * time.Minute
)

// errSignedOut is the same for invented, expired and ended sessions.
var errSignedOut = core.Errorf(core.Unauthorized, "You are not signed in")

// SignIn starts a session for the user with an email and password, and returns the value for the cookie.
// Neither the response nor its time reveals whether the email exists. Too many failures are RateLimited. The
// browser's previous session, before, ends.
func (s *Service) SignIn(ctx context.Context, email, password string, from Origin, before string) (value string, err error) {
	email = NormalizeEmail(email)
	attempt, err := s.beginAttempt(ctx, email, from)
	if err != nil {
		return "", err
	}
	var known credentials
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		known, err = credentialsByEmail(q, email)
		return err
	})
	if err != nil && !errors.Is(err, db.ErrNoRows) {
		return "", err
	}
	if !seal.CheckPassword(known.passwordHash, password) {
		if err := s.recordFailure(ctx, known.userID, attempt); err != nil {
			return "", err
		}
		return "", core.Errorf(core.Unprocessable, "The email or the password is wrong")
	}
	if err := s.attemptSucceeded(ctx, attempt); err != nil {
		return "", err
	}
	return s.start(ctx, known.userID, ByPassword, from, before)
}

// SignInVerified starts a session, like SignIn, for the member with an email that an identity provider has
// verified. It returns a Forbidden error, with a message for the user, if no member has the email.
func (s *Service) SignInVerified(ctx context.Context, email string, from Origin, before string) (value string, err error) {
	email = NormalizeEmail(email)
	var userID string
	err = s.db.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`
			SELECT id
			FROM users u
			WHERE email = $1 AND EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id)`, email).Scan(&userID)
	})
	if errors.Is(err, db.ErrNoRows) {
		return "", core.Errorf(core.Forbidden, "No user has the email %s. Ask an administrator of your organization to add you.", email)
	}
	if err != nil {
		return "", err
	}
	return s.start(ctx, userID, ByProvider, from, before)
}

// start replaces the session before with a new one.
func (s *Service) start(ctx context.Context, userID string, method Method, from Origin, before string) (value string, err error) {
	value = seal.NewToken("")
	err = s.db.Write(ctx, func(q *db.Q) error {
		return s.insert(q, userID, method, from, before, value)
	})
	return value, err
}

// StartSession starts a session of a user in a transaction, and returns the value for the cookie. The browser's
// previous session, before, ends.
func (s *Service) StartSession(q *db.Q, userID string, method Method, from Origin, before string) (value string, err error) {
	value = seal.NewToken("")
	return value, s.insert(q, userID, method, from, before, value)
}

func (s *Service) insert(q *db.Q, userID string, method Method, from Origin, before, value string) error {
	now := s.clock()
	if err := deleteSession(q, seal.HashToken(before)); err != nil {
		return err
	}
	if err := deleteExpiredSessions(q, now); err != nil {
		return err
	}
	return insertSession(q, seal.HashToken(value), Session{
		ID:        core.NewID(),
		UserID:    userID,
		Method:    method,
		Address:   from.Address.String(),
		UserAgent: from.userAgent(),
		CreatedAt: now,
		SeenAt:    now,
		ExpiresAt: now.Add(idleTimeout),
	})
}

// Session returns the session of a cookie, or an Unauthorized error.
func (s *Service) Session(ctx context.Context, value string, from Origin) (*Session, error) {
	if value == "" {
		return nil, errSignedOut
	}
	var session Session
	err := s.db.Read(ctx, func(q *db.Q) (err error) {
		session, err = sessionByHash(q, seal.HashToken(value))
		return err
	})
	now := s.clock()
	if errors.Is(err, db.ErrNoRows) || err == nil && !now.Before(session.ExpiresAt) {
		return nil, errSignedOut
	}
	if err != nil {
		return nil, err
	}
	if now.Sub(session.SeenAt) >= seenResolution {
		err = s.touch(ctx, &session, now, from)
	}
	return &session, err
}

// touch records a request, which extends the session.
func (s *Service) touch(ctx context.Context, session *Session, now time.Time, from Origin) error {
	session.SeenAt, session.Address = now, from.Address.String()
	session.ExpiresAt = now.Add(idleTimeout)
	if last := session.CreatedAt.Add(MaxLifetime); session.ExpiresAt.After(last) {
		session.ExpiresAt = last
	}
	return s.db.Write(ctx, func(q *db.Q) error { return updateSession(q, *session) })
}

// SignOut ends the session of a cookie, if there is one.
func (s *Service) SignOut(ctx context.Context, value string) error {
	return s.db.Write(ctx, func(q *db.Q) error { return deleteSession(q, seal.HashToken(value)) })
}

// Sessions returns the sessions of a user, latest request first.
func (s *Service) Sessions(ctx context.Context, userID string) (list []Session, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		list, err = sessionsOf(q, userID, s.clock())
		return err
	})
	return list, err
}

// EndSession ends one session of a user, or returns a NotFound error.
func (s *Service) EndSession(ctx context.Context, userID, id string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		ended, err := sessionRows.Exec(q, id, `DELETE FROM sessions WHERE user_id = $1 AND id = $2`, userID, id)
		if err == nil && ended == 0 {
			err = core.Errorf(core.NotFound, "You are not signed in there any more")
		}
		return noteEnded(q, ended, err)
	})
}

// EndOtherSessions ends all sessions of a user except the current one.
func (s *Service) EndOtherSessions(ctx context.Context, current *Session) error {
	return s.db.Write(ctx, func(q *db.Q) error { return deleteOtherSessions(q, current.UserID, current.ID) })
}
