package remoteaccess

import (
	"time"

	"stackyard/internal/domain/builds"
	"stackyard/internal/domain/events"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/db"
)

const noSession = "No session found"

const selectSession = `
	SELECT id, organization_id, job_id, agent_id, user_id, opened_with, kind, state, authorized_key, username, host_key, relay, address, reason,
		sent, received, created_at, expires_at, connected_at, ended_at
	FROM remote_sessions`

func scanSession(scan db.Scan) (*Session, error) {
	s := &Session{}
	return s, scan(&s.ID, &s.OrganizationID, &s.JobID, &s.AgentID, &s.UserID, db.ToText((*string)(&s.OpenedWith)), &s.Kind, &s.State, db.ToText(&s.AuthorizedKey), db.ToText(&s.Username), db.ToText(&s.HostKey),
		db.ToText(&s.Relay), db.ToText(&s.Address), db.ToText(&s.Reason), &s.Sent, &s.Received,
		db.ToTime(&s.CreatedAt), db.ToTime(&s.ExpiresAt), db.ToTime(&s.ConnectedAt), db.ToTime(&s.EndedAt))
}

// byID returns a session of an organization, or a NotFound error.
func byID(q *db.Q, orgID, id string) (*Session, error) {
	return db.Find(q, noSession, scanSession, selectSession+` WHERE organization_id = $1 AND id = $2`, orgID, id)
}

// requestedOf returns the sessions of a job that wait for its agent.
func requestedOf(q *db.Q, jobID, agentID string, now time.Time) ([]*Session, error) {
	return db.All(q, scanSession, selectSession+`
		WHERE job_id = $1 AND agent_id = $2 AND state = 'requested' AND expires_at > $3
		ORDER BY created_at, id LIMIT $4`, jobID, agentID, db.Micros(now), maxLive)
}

// insert adds a session, unless the job has as many as possible.
func insert(q *db.Q, s *Session, tokenHash string) error {
	if err := q.LockName("remote sessions of " + s.JobID); err != nil {
		return err
	}
	n, err := db.Count(q, `SELECT COUNT(*) FROM remote_sessions WHERE job_id = $1 AND ended_at IS NULL AND expires_at > $2`, s.JobID, db.Micros(s.CreatedAt))
	if err != nil {
		return err
	}
	if n >= maxLive {
		return unavailable("the job has as many open sessions as possible; close one first")
	}
	q.Announce(jobTopic(s.JobID))
	_, err = sessionRows.Exec(q, s.ID, `
		INSERT INTO remote_sessions (id, organization_id, job_id, agent_id, user_id, opened_with, kind, state, authorized_key, token_hash, sent, received, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, $11, $12)`,
		s.ID, s.OrganizationID, s.JobID, s.AgentID, s.UserID, db.Text(string(s.OpenedWith)), s.Kind, s.State, db.Text(s.AuthorizedKey), tokenHash, db.Micros(s.CreatedAt), db.Micros(s.ExpiresAt))
	return err
}

// offer records that the agent has connected to a replica. It reports false when the session waits for no agent.
func offer(q *db.Q, s *Session, now time.Time) (bool, error) {
	q.Announce(topic(s.ID))
	n, err := q.Exec(`
		UPDATE remote_sessions SET state = 'ready', username = $3, host_key = $4, relay = $5
		WHERE id = $1 AND state IN ('requested', 'ready') AND expires_at > $2`,
		s.ID, db.Micros(now), s.Username, db.Text(s.HostKey), s.Relay)
	return n == 1, err
}

// refuse records that the agent cannot open a session.
func refuse(q *db.Q, id, reason string, now time.Time) error {
	q.Announce(topic(id))
	_, err := sessionRows.Exec(q, id, `UPDATE remote_sessions SET state = 'refused', reason = $2, ended_at = $3 WHERE id = $1 AND state = 'requested'`, id, reason, db.Micros(now))
	return err
}

// use records that the user has connected with the token, which cannot be used again. Until then the session must be
// ready, and the token valid.
func use(q *db.Q, id, tokenHash, address string, now time.Time) (*Session, error) {
	n, err := sessionRows.Exec(q, id, `
		UPDATE remote_sessions SET state = 'connected', address = $3, connected_at = $4, expires_at = $5, lease_until = $6
		WHERE id = $1 AND token_hash = $2 AND state = 'ready' AND expires_at > $4`,
		id, tokenHash, address, db.Micros(now), db.Micros(now.Add(MaxLength)), db.Micros(now.Add(lease)))
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errToken
	}
	return db.One(q, scanSession, selectSession+` WHERE id = $1`, id)
}

var errToken = core.Errorf(core.Unauthorized, "The access token is unknown, used or expired; open a new session")

// endIn records that a session has ended, once.
func (s *Service) endIn(q *db.Q, sess *Session) error {
	q.Announce(topic(sess.ID))
	n, err := sessionRows.Exec(q, sess.ID, `UPDATE remote_sessions SET state = 'ended', reason = $2, sent = $3, received = $4, ended_at = $5 WHERE id = $1 AND ended_at IS NULL`,
		sess.ID, sess.Reason, sess.Sent, sess.Received, db.Micros(sess.EndedAt))
	if err != nil || n == 0 {
		return err
	}
	now, err := db.One(q, scanSession, selectSession+` WHERE id = $1`, sess.ID)
	if err != nil || now.ConnectedAt.IsZero() {
		return err
	}
	return s.writeEvent(q, events.SessionEnded, now)
}

// writeEvent writes an event about a session.
func (s *Service) writeEvent(q *db.Q, name events.Name, sess *Session) error {
	h, err := builds.HoldingOf(q, sess.OrganizationID, sess.JobID)
	if core.KindOf(err) == core.NotFound {
		return nil // the job was deleted
	}
	if err != nil {
		return err
	}
	return s.Events.Write(q, events.Event{
		OrganizationID: sess.OrganizationID, Name: name, PipelineID: h.PipelineID, BuildID: h.BuildID, JobID: sess.JobID,
		Facts: events.Facts{Session: &events.SessionFacts{
			ID: sess.ID, Kind: string(sess.Kind), UserID: sess.UserID, Address: sess.Address, StartedAt: sess.ConnectedAt,
			EndedAt: sess.EndedAt, Reason: sess.Reason, Sent: sess.Sent, Received: sess.Received,
		}},
	})
}

// sweepSize bounds the rows that a sweep changes at once.
const sweepSize = 500

// renew extends the lease of a session, unless it has run out.
func renew(q *db.Q, id string, now time.Time) error {
	_, err := q.Exec(`UPDATE remote_sessions SET lease_until = $2 WHERE id = $1 AND ended_at IS NULL AND lease_until >= $3`,
		id, db.Micros(now.Add(lease)), db.Micros(now))
	return err
}

// endExpired ends sessions that were not used in time, or whose replica died.
func (s *Service) endExpired(q *db.Q) (more bool, err error) {
	now := s.Clock()
	// Replicas end their own sessions first.
	over, err := db.All(q, scanSession, selectSession+`
		WHERE ended_at IS NULL AND (expires_at < $1 OR lease_until < $2)
		ORDER BY expires_at LIMIT $3`, db.Micros(now.Add(-time.Minute)), db.Micros(now), sweepSize)
	for _, sess := range over {
		sess.Reason, sess.EndedAt = "not used", now
		if !sess.ConnectedAt.IsZero() {
			sess.Reason, sess.Sent, sess.Received = "the replica with the session has stopped", -1, -1
		}
		if err == nil {
			err = s.endIn(q, sess)
		}
	}
	return len(over) == sweepSize, err
}

// removeOld removes old records.
func (s *Service) removeOld(q *db.Q) (more bool, err error) {
	n, err := q.Exec(`
		DELETE FROM remote_sessions
		WHERE id IN (SELECT id FROM remote_sessions WHERE created_at < $1 ORDER BY created_at LIMIT $2)`, db.Micros(s.Clock().Add(-keepFor)), sweepSize)
	return n == sweepSize, err
}
