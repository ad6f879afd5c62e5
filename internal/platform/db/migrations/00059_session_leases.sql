-- +goose Up

-- The replica that has the agent's end of a session extends the lease; the session of a replica that died is ended by
-- another. Then sent and received are -1: they are unknown.
ALTER TABLE remote_sessions ADD COLUMN lease_until BIGINT; -- NULL: the user has not connected
-- The account.Credential that the session was opened with; it ends with it. NULL: it was opened before this column existed.
ALTER TABLE remote_sessions ADD COLUMN opened_with TEXT;
