-- +goose Up
CREATE TABLE organizations (
    id         TEXT PRIMARY KEY,
    slug       TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    suspended  BOOLEAN NOT NULL DEFAULT FALSE,
    features   TEXT NOT NULL, -- JSON: identity.Features
    limits     TEXT NOT NULL, -- JSON: identity.Limits
    created_at BIGINT NOT NULL
);

CREATE TABLE users (
    id            TEXT PRIMARY KEY,
    email         TEXT NOT NULL UNIQUE, -- lower case
    name          TEXT NOT NULL,
    password_hash TEXT,
    created_at    BIGINT NOT NULL
);

CREATE TABLE memberships (
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    user_id         TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role            TEXT NOT NULL,
    permissions     TEXT NOT NULL, -- JSON: array of identity.Permission
    sso_mode        TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_user ON memberships (user_id);

CREATE TABLE teams (
    id                             TEXT PRIMARY KEY,
    organization_id                TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    slug                           TEXT NOT NULL,
    name                           TEXT NOT NULL,
    description                    TEXT NOT NULL,
    privacy                        TEXT NOT NULL,
    is_default                     BOOLEAN NOT NULL,
    default_member_role            TEXT NOT NULL,
    members_can_create_pipelines   BOOLEAN NOT NULL,
    members_can_create_suites      BOOLEAN NOT NULL,
    members_can_create_registries  BOOLEAN NOT NULL,
    members_can_destroy_registries BOOLEAN NOT NULL,
    members_can_destroy_packages   BOOLEAN NOT NULL,
    created_by                     TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at                     BIGINT NOT NULL,
    UNIQUE (organization_id, slug)
);

CREATE TABLE team_members (
    team_id    TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, user_id)
);
CREATE INDEX team_members_user ON team_members (user_id);

-- A token reaches the organizations listed for it in access_token_organizations, and no others.
CREATE TABLE access_tokens (
    id           TEXT PRIMARY KEY,
    user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash         TEXT NOT NULL UNIQUE,
    description  TEXT NOT NULL,
    scopes       TEXT NOT NULL, -- JSON: array of identity.Scope
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT
);
CREATE INDEX access_tokens_user ON access_tokens (user_id);

CREATE TABLE access_token_organizations (
    token_id        TEXT NOT NULL REFERENCES access_tokens (id) ON DELETE CASCADE,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    PRIMARY KEY (token_id, organization_id)
);
CREATE INDEX access_token_organizations_organization ON access_token_organizations (organization_id);

CREATE TABLE oauth_applications (
    id                 TEXT PRIMARY KEY,
    client_id          TEXT NOT NULL UNIQUE,
    client_secret_hash TEXT,
    name               TEXT NOT NULL,
    confidential       BOOLEAN NOT NULL,
    token_expires_in   BIGINT, -- seconds; NULL: tokens do not expire
    refresh_tokens     BOOLEAN NOT NULL,
    enabled            BOOLEAN NOT NULL,
    scopes             TEXT NOT NULL, -- JSON: array of identity.Scope
    created_at         BIGINT NOT NULL
);

-- One row, counted up by every change to what identity caches, so that other processes notice.
CREATE TABLE identity_epoch (
    id    BIGINT PRIMARY KEY,
    epoch BIGINT NOT NULL
);
INSERT INTO identity_epoch (id, epoch) VALUES (1, 1);
