-- +goose Up

-- Progress of the removal of old logs in the finished builds of an organization.
CREATE TABLE log_removal (
    organization_id TEXT PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    finished_at     BIGINT NOT NULL, -- of the last build whose logs were removed
    build_id        TEXT NOT NULL
);

-- Logs that are in the blob store count towards what an organization stores.
INSERT INTO stored_bytes (organization_id, kind, bytes, objects)
SELECT l.organization_id, 'logs', CAST(SUM(l.archive_size) AS BIGINT), COUNT(*)
FROM job_logs l
JOIN organizations o ON o.id = l.organization_id
WHERE l.archive IS NOT NULL
GROUP BY l.organization_id;

-- Old deliveries of an organization.
CREATE INDEX deliveries_age ON deliveries (organization_id, finished_at) WHERE state <> 'pending';

-- What an organization used on each day.
CREATE TABLE usage_days (
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    day             BIGINT NOT NULL, -- days since 1970, in UTC
    builds          BIGINT NOT NULL, -- created on that day
    jobs            BIGINT NOT NULL, -- of these builds, that were started
    job_seconds     BIGINT NOT NULL, -- how long these jobs have run
    PRIMARY KEY (organization_id, day)
);

-- Progress of the comparison of rows and blobs.
CREATE TABLE reconciliations (
    name       TEXT PRIMARY KEY,
    position   TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
