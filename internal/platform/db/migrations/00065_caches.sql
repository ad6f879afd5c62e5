-- +goose Up

-- Caches of pipelines: see package caches.
CREATE TABLE cache_entries (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pipeline_id     TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    scope           TEXT NOT NULL, -- of the builds that can save here
    protected       BOOLEAN NOT NULL, -- others are removed first
    store           TEXT NOT NULL, -- server, or agent: the agent has the bytes
    address         TEXT NOT NULL, -- digest of store, paths and key
    paths           TEXT NOT NULL, -- digest of store and paths
    key             TEXT NOT NULL, -- parts, each with a line break at its end
    blobs           TEXT NOT NULL, -- JSON
    size            BIGINT NOT NULL, -- bytes
    finished        BOOLEAN NOT NULL, -- all bytes have arrived
    created_at      BIGINT NOT NULL,
    used_at         BIGINT NOT NULL
);
CREATE UNIQUE INDEX cache_entries_address ON cache_entries (pipeline_id, scope, address) WHERE finished;
CREATE INDEX cache_entries_newest ON cache_entries (pipeline_id, scope, paths, created_at);
CREATE INDEX cache_entries_of_pipeline ON cache_entries (pipeline_id, protected, used_at);
CREATE INDEX cache_entries_used ON cache_entries (organization_id, protected, used_at);
CREATE INDEX cache_entries_unfinished ON cache_entries (organization_id, created_at) WHERE NOT finished;

-- The bytes of entries; entries of a pipeline share those with the same content.
CREATE TABLE cache_blobs (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL, -- of the pipeline
    pipeline_id     TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    digest          TEXT NOT NULL, -- SHA-256 in hex
    size            BIGINT NOT NULL, -- bytes
    stored          BOOLEAN NOT NULL
);
CREATE UNIQUE INDEX cache_blobs_digest ON cache_blobs (pipeline_id, digest);

CREATE TABLE cache_entry_blobs (
    entry_id TEXT NOT NULL REFERENCES cache_entries (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    blob_id  TEXT NOT NULL REFERENCES cache_blobs (id) ON DELETE CASCADE,
    PRIMARY KEY (entry_id, position)
);
CREATE INDEX cache_entry_blobs_blob ON cache_entry_blobs (blob_id);
