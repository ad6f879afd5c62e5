-- +goose Up
CREATE TABLE clusters (
    id                             TEXT PRIMARY KEY,
    organization_id                TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name                           TEXT NOT NULL,
    description                    TEXT NOT NULL,
    emoji                          TEXT,
    color                          TEXT,
    is_default                     BOOLEAN NOT NULL,
    hosted                         BOOLEAN NOT NULL,
    default_queue_id               TEXT,
    hosted_git_mirror_enabled      BOOLEAN NOT NULL,
    hosted_container_cache_enabled BOOLEAN NOT NULL,
    created_by                     TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at                     BIGINT NOT NULL,
    UNIQUE (organization_id, name)
);
CREATE UNIQUE INDEX clusters_default ON clusters (organization_id) WHERE is_default;

CREATE TABLE queues (
    id                   TEXT PRIMARY KEY,
    cluster_id           TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    key                  TEXT NOT NULL,
    description          TEXT NOT NULL,
    retry_agent_affinity TEXT NOT NULL,
    hosted_agents        TEXT, -- JSON: what runs a hosted queue's agents; NULL: self-hosted
    dispatch_paused_at   BIGINT,
    dispatch_paused_by   TEXT REFERENCES users (id) ON DELETE SET NULL,
    dispatch_paused_note TEXT,
    created_by           TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at           BIGINT NOT NULL,
    UNIQUE (cluster_id, key)
);

CREATE TABLE agent_tokens (
    id                   TEXT PRIMARY KEY,
    cluster_id           TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    hash                 TEXT NOT NULL UNIQUE,
    description          TEXT NOT NULL,
    allowed_ip_addresses TEXT NOT NULL, -- JSON: array of CIDR blocks; empty: any address
    expires_at           BIGINT,
    created_by           TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at           BIGINT NOT NULL
);
CREATE INDEX agent_tokens_cluster ON agent_tokens (cluster_id);

CREATE TABLE cluster_secrets (
    id           TEXT PRIMARY KEY,
    cluster_id   TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    key          TEXT NOT NULL,
    value        TEXT NOT NULL, -- sealed
    description  TEXT NOT NULL,
    policy       TEXT NOT NULL,
    created_by   TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at   BIGINT NOT NULL,
    updated_by   TEXT REFERENCES users (id) ON DELETE SET NULL,
    updated_at   BIGINT NOT NULL,
    last_read_at BIGINT,
    UNIQUE (cluster_id, key)
);

-- A maintainer is a user or a team.
CREATE TABLE cluster_maintainers (
    id         TEXT PRIMARY KEY,
    cluster_id TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    user_id    TEXT REFERENCES users (id) ON DELETE CASCADE,
    team_id    TEXT REFERENCES teams (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    UNIQUE (cluster_id, user_id),
    UNIQUE (cluster_id, team_id)
);
