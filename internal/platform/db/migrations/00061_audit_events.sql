-- +goose Up

-- The audit trail: who changed what, from where; see package audit. Rows keep names as they were, and reference nothing
-- but their organization, so that they outlive what they are about.
CREATE TABLE audit_events (
    id                TEXT PRIMARY KEY,
    organization_id   TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    created_at        BIGINT NOT NULL,
    action            TEXT NOT NULL, -- pipeline.updated
    subject_type      TEXT NOT NULL,
    subject_id        TEXT NOT NULL,
    subject_name      TEXT NOT NULL,
    actor_type        TEXT NOT NULL,
    actor_id          TEXT NOT NULL, -- '': none
    actor_name        TEXT NOT NULL,
    actor_email       TEXT NOT NULL,
    token_id          TEXT NOT NULL, -- the access token that was used; '': none
    token_description TEXT NOT NULL,
    channel           TEXT NOT NULL,
    address           TEXT NOT NULL,
    user_agent        TEXT NOT NULL,
    request_id        TEXT NOT NULL,
    changes           TEXT NOT NULL  -- JSON: array of audit.Change
);
CREATE INDEX audit_events_time ON audit_events (organization_id, created_at, id);
CREATE INDEX audit_events_actor ON audit_events (organization_id, actor_id, created_at, id);
CREATE INDEX audit_events_action ON audit_events (organization_id, action, created_at, id);
CREATE INDEX audit_events_type ON audit_events (organization_id, subject_type, created_at, id);
CREATE INDEX audit_events_subject ON audit_events (organization_id, subject_id, created_at, id);
