-- +goose Up
CREATE TABLE pipeline_templates (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    description     TEXT NOT NULL,
    configuration   TEXT NOT NULL,
    steps           TEXT NOT NULL, -- JSON: the configuration's steps as responses show them
    available       BOOLEAN NOT NULL,
    created_by      TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at      BIGINT NOT NULL,
    updated_by      TEXT REFERENCES users (id) ON DELETE SET NULL,
    updated_at      BIGINT NOT NULL,
    UNIQUE (organization_id, name)
);

CREATE TABLE pipelines (
    id                                  TEXT PRIMARY KEY,
    organization_id                     TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    slug                                TEXT NOT NULL,
    name                                TEXT NOT NULL,
    name_folded                         TEXT NOT NULL, -- lower case, for searching and for telling names apart
    description                         TEXT NOT NULL,
    repository                          TEXT NOT NULL,
    repository_folded                   TEXT NOT NULL, -- lower case as given, a space, and the form that ssh and https share
    repository_host                     TEXT NOT NULL DEFAULT '', -- as in source_connections; empty when the repository is on none
    cluster_id                          TEXT REFERENCES clusters (id) ON DELETE SET NULL,
    template_id                         TEXT REFERENCES pipeline_templates (id),
    configuration                       TEXT, -- YAML; NULL for a visual pipeline or one made from a template
    steps                               TEXT, -- JSON: the steps as responses show them; NULL for one made from a template
    env                                 TEXT NOT NULL, -- JSON: variables of a visual pipeline
    default_branch                      TEXT NOT NULL,
    branch_configuration                TEXT,
    skip_queued_branch_builds           BOOLEAN NOT NULL,
    skip_queued_branch_builds_filter    TEXT,
    cancel_running_branch_builds        BOOLEAN NOT NULL,
    cancel_running_branch_builds_filter TEXT,
    allow_rebuilds                      BOOLEAN NOT NULL,
    clone_mirror_url                    TEXT,
    default_command_step_timeout        BIGINT,
    maximum_command_step_timeout        BIGINT,
    provider_settings                   TEXT NOT NULL, -- JSON
    tags                                TEXT, -- JSON: array of strings
    emoji                               TEXT,
    color                               TEXT,
    visibility                          TEXT NOT NULL,
    webhook_key                         TEXT NOT NULL UNIQUE, -- the unguessable part of webhook_url
    badge_key                           TEXT NOT NULL UNIQUE, -- the unguessable part of badge_url
    source_webhooks_disabled_at         BIGINT,
    source_webhooks_disabled_by         TEXT, -- the name of the user at that time
    created_by                          TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at                          BIGINT NOT NULL,
    archived_at                         BIGINT,
    UNIQUE (organization_id, slug),
    UNIQUE (organization_id, name_folded)
);
CREATE INDEX pipelines_created ON pipelines (organization_id, created_at);
CREATE INDEX pipelines_cluster ON pipelines (cluster_id);
CREATE INDEX pipelines_template ON pipelines (template_id);

CREATE TABLE team_pipelines (
    team_id      TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    pipeline_id  TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    access_level TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (team_id, pipeline_id)
);
CREATE INDEX team_pipelines_pipeline ON team_pipelines (pipeline_id);

-- How an organization is connected to a source host, one for each host.
CREATE TABLE source_connections (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    host            TEXT NOT NULL, -- as in repository URLs: github.com
    provider        TEXT NOT NULL,
    api_url         TEXT NOT NULL,
    token           TEXT NOT NULL, -- sealed
    created_at      BIGINT NOT NULL,
    UNIQUE (organization_id, host)
);
