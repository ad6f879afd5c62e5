package account

import (
	"time"

	"stackyard/internal/platform/audit"
	"stackyard/internal/platform/db"
	"stackyard/internal/platform/identity"
)

const selectSession = `SELECT id, user_id, method, address, user_agent, created_at, seen_at, expires_at FROM sessions`

func scanSession(scan db.Scan) (s Session, err error) {
	return s, scan(&s.ID, &s.UserID, &s.Method, &s.Address, &s.UserAgent, db.ToTime(&s.CreatedAt), db.ToTime(&s.SeenAt), db.ToTime(&s.ExpiresAt))
}

func sessionByHash(q *db.Q, hash string) (Session, error) {
	return db.One(q, scanSession, selectSession+` WHERE hash = $1`, hash)
}

func sessionsOf(q *db.Q, userID string, now time.Time) ([]Session, error) {
	return db.All(q, scanSession, selectSession+` WHERE user_id = $1 AND expires_at > $2 ORDER BY seen_at DESC, id DESC`, userID, db.Micros(now))
}

func insertSession(q *db.Q, hash string, s Session) error {
	_, err := q.Exec(`
		INSERT INTO sessions (id, user_id, hash, method, address, user_agent, created_at, seen_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		s.ID, s.UserID, hash, s.Method, s.Address, s.UserAgent, db.Micros(s.CreatedAt), db.Micros(s.SeenAt), db.Micros(s.ExpiresAt))
	if err != nil {
		return err
	}
	return record(q, s.UserID, true, audit.Entry{
		Action: "session.created", Subject: audit.Subject{Type: "session", ID: s.ID}, After: audit.Fields{{Name: "method", Value: string(s.Method)}},
	})
}

func updateSession(q *db.Q, s Session) error {
	_, err := q.Exec(`UPDATE sessions SET address = $2, seen_at = $3, expires_at = $4 WHERE id = $1`,
		s.ID, s.Address, db.Micros(s.SeenAt), db.Micros(s.ExpiresAt))
	return err
}

func deleteSession(q *db.Q, hash string) error {
	ids, err := db.Strings(q, `SELECT id FROM sessions WHERE hash = $1`, hash)
	if err != nil || len(ids) == 0 {
		return err
	}
	ended, err := sessionRows.Exec(q, ids[0], `DELETE FROM sessions WHERE id = $1`, ids[0])
	return noteEnded(q, ended, err)
}

// deleteOtherSessions deletes all sessions of a user except keep; "" keeps none.
func deleteOtherSessions(q *db.Q, userID, keep string) error {
	ended, err := q.Exec(`DELETE FROM sessions WHERE user_id = $1 AND id <> $2`, userID, keep)
	if err == nil && ended > 0 {
		err = record(q, userID, false, audit.Entry{
			Action: "user.signed_out", Subject: audit.Subject{Type: "user", ID: userID}, Before: audit.Fields{{Name: "sessions", Value: ended}},
		})
	}
	return noteEnded(q, ended, err)
}

// noteEnded makes live pages check whether their session has ended.
func noteEnded(q *db.Q, ended int64, err error) error {
	if err != nil || ended == 0 {
		return err
	}
	return identity.NoteChange(q)
}

func deleteExpiredSessions(q *db.Q, now time.Time) error {
	_, err := q.Exec(`DELETE FROM sessions WHERE expires_at <= $1`, db.Micros(now))
	return err
}
