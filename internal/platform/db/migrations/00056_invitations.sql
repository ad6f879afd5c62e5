-- +goose Up

-- Invitations to organizations; see package organizations.
CREATE TABLE invitations (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    email           TEXT NOT NULL,
    role            TEXT NOT NULL,
    hash            TEXT NOT NULL UNIQUE, -- of the token in the link
    created_by      TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX invitations_email ON invitations (organization_id, email);
CREATE INDEX invitations_created_by ON invitations (created_by);

-- Links with which the first person sets up an installation; see package account.
CREATE TABLE setup_links (
    hash       TEXT PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

-- Pipelines that people want to see first; see package pipelines.
CREATE TABLE pipeline_favorites (
    user_id     TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    pipeline_id TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    PRIMARY KEY (user_id, pipeline_id)
);
CREATE INDEX pipeline_favorites_pipeline ON pipeline_favorites (pipeline_id);
