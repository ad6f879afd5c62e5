-- +goose Up

-- Machines of hosted queues; see package machines. A row exists as long as its container or process may, whatever
-- happens to its queue, so it references nothing.
CREATE TABLE machines (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL,
    cluster_id      TEXT NOT NULL,
    queue_id        TEXT NOT NULL,
    host            TEXT NOT NULL, -- the server that runs it
    state           TEXT NOT NULL,
    job_id          TEXT, -- NULL: it waits for one
    image_ref       TEXT NOT NULL,
    lease_until     BIGINT NOT NULL, -- the host extends it
    created_at      BIGINT NOT NULL
);
CREATE INDEX machines_host ON machines (host);
CREATE INDEX machines_lease ON machines (lease_until);
