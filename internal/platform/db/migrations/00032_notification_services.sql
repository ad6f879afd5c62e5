-- +goose Up

-- Destinations that an organization sends notifications about its builds and jobs to.
CREATE TABLE notification_services (
    id                   TEXT PRIMARY KEY,
    organization_id      TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    provider             TEXT NOT NULL,
    description          TEXT NOT NULL,
    scope                TEXT NOT NULL,
    scope_uuids          TEXT NOT NULL, -- JSON: array of ids of pipelines, teams or clusters; some may be gone
    branch_configuration TEXT NOT NULL,
    build_states         TEXT NOT NULL, -- JSON: object of booleans
    settings             TEXT NOT NULL, -- sealed JSON: object of the provider's settings
    connected            BOOLEAN NOT NULL, -- through the web: the provider gave the credentials
    disabled             BOOLEAN NOT NULL,
    broken_at            BIGINT, -- NULL: it is not broken
    broken_reason        TEXT,
    created_by           TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at           BIGINT NOT NULL
);
CREATE INDEX notification_services_organization ON notification_services (organization_id, created_at, id);
