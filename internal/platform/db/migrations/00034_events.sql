-- +goose Up

-- State changes of builds, jobs, agents and agent tokens, in the order in which they are read; see package
-- events. Rows refer to others without foreign keys: an event outlives what it is about.
CREATE TABLE events (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL,
    organization_id TEXT NOT NULL,
    name            TEXT NOT NULL,
    pipeline_id     TEXT,
    cluster_id      TEXT,
    build_id        TEXT,
    job_id          TEXT,
    agent_id        TEXT,
    branch          TEXT,
    facts           TEXT NOT NULL, -- JSON: events.Facts
    created_at      BIGINT NOT NULL
);
CREATE INDEX events_organization ON events (organization_id, seq);

-- How far each consumer has read. A new consumer gets its row in a migration.
CREATE TABLE event_cursors (
    id  TEXT PRIMARY KEY,
    seq BIGINT NOT NULL -- of the last event that it has processed
);
INSERT INTO event_cursors (id, seq) VALUES ('notifications', 0);

-- The events of an organization that a consumer wants. Other events are not written.
CREATE TABLE event_wants (
    organization_id TEXT NOT NULL,
    consumer        TEXT NOT NULL,
    names           TEXT NOT NULL, -- JSON: array of events.Name
    PRIMARY KEY (organization_id, consumer)
);

-- One row, whose version counts the changes to event_wants.
CREATE TABLE event_wants_version (
    id      BIGINT PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO event_wants_version (id, version) VALUES (1, 1);
