-- +goose Up

-- One row for each event and notification service that it is sent to; see package delivery. The rows of a deleted
-- service are removed by a task.
CREATE TABLE deliveries (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT, -- orders those of a service
    id              TEXT NOT NULL UNIQUE, -- what the receiver is told
    organization_id TEXT NOT NULL,
    service_id      TEXT NOT NULL,
    event           TEXT NOT NULL, -- its name
    event_seq       BIGINT, -- NULL: a ping
    order_key       TEXT NOT NULL, -- those of a service with the same key are sent one after the other
    build_id        TEXT,
    redelivery_of   TEXT, -- the id of another
    state           TEXT NOT NULL,
    attempts        BIGINT NOT NULL,
    next_attempt_at BIGINT, -- NULL: now, or never
    created_at      BIGINT NOT NULL,
    finished_at     BIGINT,
    status          BIGINT, -- of the last response
    error           TEXT, -- of the last attempt
    duration        BIGINT, -- of the last attempt, in microseconds
    request         TEXT, -- JSON: delivery.RequestRecord, of the last attempt
    response        TEXT -- JSON: delivery.ResponseRecord
);
CREATE INDEX deliveries_pending ON deliveries (service_id, seq) WHERE state = 'pending';
CREATE INDEX deliveries_done ON deliveries (service_id, seq) WHERE state <> 'pending';

-- Services whose last deliveries failed.
CREATE TABLE delivery_failures (
    service_id      TEXT PRIMARY KEY,
    since           BIGINT NOT NULL,
    failures        BIGINT NOT NULL, -- attempts since then
    backoffs        BIGINT NOT NULL, -- how often the whole service has been given a rest
    next_attempt_at BIGINT -- until when nothing is sent to it; NULL: it gets no rest
);
