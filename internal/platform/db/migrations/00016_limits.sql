-- +goose Up

-- What several processes count together for rate limits. It is good for seconds, so PostgreSQL need not
-- write it to its log. On SQLite, which one process serves, nothing is written here.

-- The requests that were let through within small limits.
CREATE /* UNLOGGED */ TABLE rate_windows (
    key     TEXT PRIMARY KEY,
    recent  TEXT NOT NULL, -- the times of the latest ones, newest first, 16 digits each
    at      BIGINT NOT NULL, -- of the last request
    granted BOOLEAN NOT NULL -- whether it was let through
);

-- Who may let through how many requests within large limits.
CREATE /* UNLOGGED */ TABLE rate_shares (
    key    TEXT PRIMARY KEY,
    leases TEXT NOT NULL, -- JSON: array of objects
    at     BIGINT NOT NULL -- of the last request for one
);
