-- +goose Up

-- Schedules of pipelines; see package schedules.
CREATE TABLE schedules (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pipeline_id     TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    label           TEXT,
    cronline        TEXT NOT NULL,
    message         TEXT,
    commit_name     TEXT,
    branch          TEXT, -- NULL: the pipeline's default branch
    env             TEXT NOT NULL, -- JSON: object of strings
    enabled         BOOLEAN NOT NULL,
    next_at         BIGINT, -- NULL: disabled
    failures        BIGINT NOT NULL, -- since the last build
    failed_message  TEXT, -- of the last failure
    failed_at       BIGINT,
    created_by      TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at      BIGINT NOT NULL
);
CREATE INDEX schedules_pipeline ON schedules (pipeline_id, created_at, id);
CREATE INDEX schedules_organization ON schedules (organization_id);
CREATE INDEX schedules_created_by ON schedules (created_by);
