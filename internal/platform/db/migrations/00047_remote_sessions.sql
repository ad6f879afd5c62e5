-- +goose Up

-- Shells and desktops that people open in running jobs; see package remoteaccess. Rows outlive their jobs: they record
-- who had access to what. Nothing in them opens a session: the token is stored as a hash, keys are public ones.
CREATE TABLE remote_sessions (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    job_id          TEXT NOT NULL,
    agent_id        TEXT NOT NULL,
    user_id         TEXT NOT NULL,
    kind            TEXT NOT NULL, -- remoteaccess.Kind
    state           TEXT NOT NULL, -- remoteaccess.State
    authorized_key  TEXT, -- public key of the user, for a shell
    token_hash      TEXT NOT NULL,
    username        TEXT, -- these are the agent's: set once it has connected
    host_key        TEXT,
    relay           TEXT, -- URL of the replica that has the agent's end
    address         TEXT, -- from which the user connected
    reason          TEXT, -- why it ended, or was refused
    sent            BIGINT NOT NULL, -- bytes from the user to the job
    received        BIGINT NOT NULL, -- bytes from the job to the user
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL, -- when the token expires, then when the session must end
    connected_at    BIGINT,
    ended_at        BIGINT
);
CREATE INDEX remote_sessions_organization ON remote_sessions (organization_id, created_at);
CREATE INDEX remote_sessions_job ON remote_sessions (job_id, created_at);
CREATE INDEX remote_sessions_live ON remote_sessions (expires_at) WHERE ended_at IS NULL;
CREATE INDEX remote_sessions_old ON remote_sessions (created_at);
