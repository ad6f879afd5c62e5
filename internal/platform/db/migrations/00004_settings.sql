-- +goose Up
-- An organization without a row has the defaults.
CREATE TABLE pipeline_settings (
    organization_id                   TEXT PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    default_branch                    TEXT,
    default_cluster_id                TEXT REFERENCES clusters (id) ON DELETE SET NULL,
    default_timeout_in_minutes        BIGINT,
    maximum_timeout_in_minutes        BIGINT,
    scheduled_job_expiry_in_minutes   BIGINT,
    hosted_agents_terminal_enabled_at BIGINT,
    hosted_agents_terminal_enabled_by TEXT REFERENCES users (id) ON DELETE SET NULL,
    public_pipelines_enabled_at       BIGINT,
    public_pipelines_enabled_by       TEXT REFERENCES users (id) ON DELETE SET NULL,
    queue_metrics_enabled_at          BIGINT,
    queue_metrics_enabled_by          TEXT REFERENCES users (id) ON DELETE SET NULL,
    build_export_strategy             TEXT,
    build_export_location             TEXT
);
