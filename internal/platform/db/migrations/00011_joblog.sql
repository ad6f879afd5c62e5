-- +goose Up

-- What there is to know of a job's log besides its bytes, which are in the place for blobs. A log that is
-- still written to has no row: nothing is written here for a chunk.
CREATE TABLE job_logs (
    job_id          TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    organization_id TEXT NOT NULL,
    archive         TEXT, -- the key of the object that the log was sealed into
    archive_size    BIGINT, -- in bytes, its index included
    index_size      BIGINT,
    settled         BOOLEAN NOT NULL, -- all of the log is in the archive
    header_times    TEXT, -- JSON: when its sections began, as the agent told
    deleted_at      BIGINT
);
