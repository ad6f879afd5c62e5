-- +goose Up

-- The newest state of each context at a commit, and which was sent to its source host; see package statuses.
CREATE TABLE commit_statuses (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    repository      TEXT NOT NULL, -- host and path
    commit_id       TEXT NOT NULL,
    context         TEXT NOT NULL,
    build_id        TEXT NOT NULL,
    job_id          TEXT, -- NULL: it is about the whole build
    version         BIGINT NOT NULL, -- number of the event
    state           TEXT NOT NULL,
    description     TEXT NOT NULL,
    url             TEXT NOT NULL,
    updated_at      BIGINT NOT NULL,
    sent_version    BIGINT NOT NULL,
    sent_at         BIGINT,
    attempts        BIGINT NOT NULL,
    error           TEXT,
    UNIQUE (organization_id, repository, commit_id, context)
);
CREATE INDEX commit_statuses_build ON commit_statuses (organization_id, build_id);
CREATE INDEX commit_statuses_updated ON commit_statuses (updated_at);

INSERT INTO event_cursors (id, seq) SELECT 'commit-statuses', COALESCE(MAX(seq), 0) FROM events;

-- Organizations that are connected to a source host publish statuses.
INSERT INTO event_wants (organization_id, consumer, names)
SELECT DISTINCT organization_id, 'commit-statuses', '["build.scheduled","build.running","build.failing","build.finished","build.skipped"]'
FROM source_connections;
UPDATE event_wants
SET names = '["build.scheduled","build.running","build.failing","build.finished","build.skipped","job.scheduled","job.started","job.finished"]'
WHERE consumer = 'commit-statuses' AND organization_id IN (
    SELECT organization_id FROM pipelines WHERE provider_settings LIKE '%"publish_commit_status_per_step":true%');
UPDATE event_wants_version SET version = version + 1 WHERE id = 1;
