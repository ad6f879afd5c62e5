-- +goose Up

-- Every agent that has registered. What agents and people do to one changes its row; that it was heard
-- of does not: see agent_presence.
CREATE TABLE agents (
    id                   TEXT PRIMARY KEY,
    organization_id      TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    cluster_id           TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    queue_id             TEXT REFERENCES queues (id) ON DELETE SET NULL,
    queue_key            TEXT NOT NULL,
    token_id             TEXT NOT NULL, -- the agent token that it registered with, which may be gone
    token_description    TEXT NOT NULL,
    creator_id           TEXT REFERENCES users (id) ON DELETE SET NULL, -- who made the token
    session_hash         TEXT NOT NULL UNIQUE,
    name                 TEXT NOT NULL,
    hostname             TEXT NOT NULL,
    ip_address           TEXT NOT NULL,
    user_agent           TEXT NOT NULL,
    version              TEXT NOT NULL,
    build                TEXT NOT NULL,
    os                   TEXT NOT NULL,
    arch                 TEXT NOT NULL,
    tags                 TEXT NOT NULL, -- JSON: array of key=value
    priority             BIGINT,
    ignored_in_dispatch  BOOLEAN NOT NULL, -- it is offered no jobs: it acquires one, or is about to leave
    state                TEXT NOT NULL,
    stop_asked_at        BIGINT,
    created_at           BIGINT NOT NULL,
    connected_at         BIGINT,
    disconnected_at      BIGINT,
    lost_at              BIGINT,
    stopped_at           BIGINT,
    last_job_finished_at BIGINT,
    paused_at            BIGINT,
    paused_by            TEXT REFERENCES users (id) ON DELETE SET NULL,
    paused_note          TEXT,
    pause_minutes        BIGINT NOT NULL
);
CREATE INDEX agents_connected ON agents (organization_id, created_at, id) WHERE state IN ('connected', 'stopping');
CREATE INDEX agents_cluster ON agents (cluster_id) WHERE state IN ('connected', 'stopping');
CREATE INDEX agents_queue ON agents (queue_id) WHERE queue_id IS NOT NULL;
CREATE INDEX agents_gone ON agents (COALESCE(disconnected_at, lost_at, created_at)) WHERE state NOT IN ('connected', 'stopping');

-- When agents that have not left were last heard of, a little behind. Many rows are changed in one
-- statement, so they are narrow and have no index that would have to follow.
CREATE TABLE agent_presence (
    agent_id TEXT PRIMARY KEY REFERENCES agents (id) ON DELETE CASCADE,
    heard_at BIGINT NOT NULL
);

-- The timeout that a job had before it was changed while the job ran, 0 for none; NULL when it was not.
ALTER TABLE jobs ADD COLUMN initial_timeout BIGINT;

-- Who unblocked a build last is told to its jobs.
CREATE INDEX jobs_unblocked ON jobs (build_id, unblocked_at) WHERE unblocked_at IS NOT NULL;
