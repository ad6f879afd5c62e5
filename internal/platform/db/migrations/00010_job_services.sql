-- +goose Up

-- The ids of changes to steps that add to what is there, so that one which is sent twice is done once.
CREATE TABLE step_updates (
    build_id   TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    id         TEXT NOT NULL, -- given by whoever sends it
    created_at BIGINT NOT NULL,
    PRIMARY KEY (build_id, id)
);

ALTER TABLE artifacts ADD COLUMN batch_id TEXT; -- given by whoever sends it: the same batch twice is noted once
ALTER TABLE artifacts ADD COLUMN upload_destination TEXT; -- NULL: its bytes are in the server's own place
ALTER TABLE artifacts ADD COLUMN parts BIGINT NOT NULL DEFAULT 1; -- that its bytes come in
CREATE INDEX artifacts_batch ON artifacts (job_id, batch_id) WHERE batch_id IS NOT NULL;

-- The keys that sign what jobs show about themselves. All of them are published; the newest that is not
-- retired signs.
CREATE TABLE oidc_keys (
    id          TEXT PRIMARY KEY, -- the key id in tokens
    private_key TEXT NOT NULL, -- sealed
    public_key  TEXT NOT NULL, -- JSON: a JWK
    created_at  BIGINT NOT NULL,
    retired_at  BIGINT
);

ALTER TABLE source_connections ADD COLUMN clone_token TEXT; -- sealed: what jobs clone with; NULL: none
