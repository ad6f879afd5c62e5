-- +goose Up

-- Custom images of hosted agents; see package agentimages.
CREATE TABLE agent_images (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    cluster_id      TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    name            TEXT NOT NULL,
    dockerfile      TEXT NOT NULL,
    base_image      TEXT NOT NULL, -- the FROM line
    status          TEXT NOT NULL,
    version         BIGINT NOT NULL,
    image_ref       TEXT, -- of the last version that was built
    last_error      TEXT,
    created_by      TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    UNIQUE (cluster_id, name)
);
CREATE INDEX agent_images_organization ON agent_images (organization_id);
CREATE INDEX agent_images_created_by ON agent_images (created_by);

-- Builds of images. A row outlives its image until the real image is removed, so it references nothing.
CREATE TABLE agent_image_builds (
    id              TEXT PRIMARY KEY,
    image_id        TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    cluster_id      TEXT NOT NULL,
    version         BIGINT NOT NULL,
    state           TEXT NOT NULL,
    host            TEXT, -- which host builds it or stores the real image
    image_ref       TEXT NOT NULL,
    attempts        BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    started_at      BIGINT,
    finished_at     BIGINT
);
CREATE INDEX agent_image_builds_image ON agent_image_builds (image_id, version);
CREATE INDEX agent_image_builds_host ON agent_image_builds (host, state);
CREATE INDEX agent_image_builds_ref ON agent_image_builds (image_ref);

CREATE TABLE agent_image_logs (
    build_id TEXT NOT NULL REFERENCES agent_image_builds (id) ON DELETE CASCADE,
    seq      BIGINT NOT NULL,
    text     TEXT NOT NULL,
    PRIMARY KEY (build_id, seq)
);
