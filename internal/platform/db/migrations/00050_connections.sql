-- +goose Up

-- Connections with a GitHub App have no token of their own (token is empty), and get tokens that expire.
ALTER TABLE source_connections ADD COLUMN app_id TEXT;
ALTER TABLE source_connections ADD COLUMN installation_id TEXT;
ALTER TABLE source_connections ADD COLUMN private_key TEXT; -- sealed
ALTER TABLE source_connections ADD COLUMN updated_at BIGINT;

-- The tokens that GitHub Apps created, for all repositories ('') or to read one. The replica with the lease creates the
-- next one.
CREATE TABLE source_connection_tokens (
    connection_id TEXT NOT NULL REFERENCES source_connections (id) ON DELETE CASCADE,
    repository    TEXT NOT NULL, -- the name without its owner
    token         TEXT, -- sealed
    expires_at    BIGINT,
    lease         TEXT,
    leased_until  BIGINT,
    PRIMARY KEY (connection_id, repository)
);
