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
	// idleLife is how long a session lasts without a visit.
	idleLife = 14 * 24 * time.Hour
	// LongestLife is how long a session lasts at most, however often its user comes.
	LongestLife = 90 * 24 * time.Hour
	// seenEvery is how exactly it is known when a session was last used, so that most visits write nothing.
	seenEvery = 5 * time.Minute
)

// errSignedOut is told about every cookie that is no session: made up, expired and ended alike.
var errSignedOut = core.Errorf(core.Unauthorized, "You are not signed in")

// SignIn starts a session for whoever has an email and its password, and returns the value for the
// browser's cookie. Unknown emails and wrong passwords cannot be told apart, neither by the answer nor
// by the time it takes. Too many failures are RateLimited. The session that the browser had before, if
// any, ends.
func (s *Service) SignIn(ctx context.Context, email, password string, from Origin, before string) (value string, err error) {
	email = NormalizeEmail(email)
	attempt, err := s.begin(ctx, email, from)
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
		return "", core.Errorf(core.Unprocessable, "The email or the password is wrong")
	}
	if err := s.succeeded(ctx, attempt); err != nil {
		return "", err
	}
	return s.start(ctx, known.userID, ByPassword, from, before)
}

// SignInKnown starts a session, as SignIn does, for the member with an email that somebody else has
// verified. Where nobody has it, it is Forbidden, with a sentence for whom it concerns.
func (s *Service) SignInKnown(ctx context.Context, email string, from Origin, before string) (value string, err error) {
	email = NormalizeEmail(email)
	var userID string
	err = s.db.Read(ctx, func(q *db.Q) error {
		return q.QueryRow(`
			SELECT id
			FROM users u
			WHERE email = $1 AND EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = u.id)`, email).Scan(&userID)
	})
	if errors.Is(err, db.ErrNoRows) {
		return "", core.Errorf(core.Forbidden, "Nobody here has the email %s. Ask an administrator of your organization to add you.", email)
	}
	if err != nil {
		return "", err
	}
	return s.start(ctx, userID, ByProvider, from, before)
}

// start makes a new session in the place of the one before.
func (s *Service) start(ctx context.Context, userID string, method Method, from Origin, before string) (value string, err error) {
	value = seal.NewToken("")
	err = s.db.Write(ctx, func(q *db.Q) error {
		return s.insert(q, userID, method, from, before, value)
	})
	return value, err
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
		ExpiresAt: now.Add(idleLife),
	})
}

// Session returns the session that a cookie stands for, or an Unauthorized error.
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
	if now.Sub(session.SeenAt) >= seenEvery {
		err = s.see(ctx, &session, now, from)
	}
	return &session, err
}

// see notes a visit, which keeps the session for a while longer.
func (s *Service) see(ctx context.Context, session *Session, now time.Time, from Origin) error {
	session.SeenAt, session.Address = now, from.Address.String()
	session.ExpiresAt = now.Add(idleLife)
	if last := session.CreatedAt.Add(LongestLife); session.ExpiresAt.After(last) {
		session.ExpiresAt = last
	}
	return s.db.Write(ctx, func(q *db.Q) error { return updateSession(q, *session) })
}

// SignOut ends the session that a cookie stands for, if any.
func (s *Service) SignOut(ctx context.Context, value string) error {
	return s.db.Write(ctx, func(q *db.Q) error { return deleteSession(q, seal.HashToken(value)) })
}

// Sessions returns where a user is signed in, the latest visit first.
func (s *Service) Sessions(ctx context.Context, userID string) (list []Session, err error) {
	err = s.db.Read(ctx, func(q *db.Q) (err error) {
		list, err = sessionsOf(q, userID, s.clock())
		return err
	})
	return list, err
}

// EndSession signs a user out in one browser, or says NotFound.
func (s *Service) EndSession(ctx context.Context, userID, id string) error {
	return s.db.Write(ctx, func(q *db.Q) error {
		ended, err := q.Exec(`DELETE FROM sessions WHERE user_id = $1 AND id = $2`, userID, id)
		if err == nil && ended == 0 {
			err = core.Errorf(core.NotFound, "You are not signed in there any more")
		}
		return noteEnd(q, ended, err)
	})
}

// EndOtherSessions signs a user out everywhere but in the session they do it in.
func (s *Service) EndOtherSessions(ctx context.Context, here *Session) error {
	return s.db.Write(ctx, func(q *db.Q) error { return deleteOtherSessions(q, here.UserID, here.ID) })
}
