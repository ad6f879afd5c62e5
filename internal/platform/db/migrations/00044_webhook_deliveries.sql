-- +goose Up

-- Webhooks that source hosts sent to pipelines; see package hooks.
CREATE TABLE webhook_deliveries (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT, -- orders those of a pipeline
    id              TEXT NOT NULL UNIQUE,
    organization_id TEXT NOT NULL,
    pipeline_id     TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    host            TEXT NOT NULL, -- hookpayload.Host
    event           TEXT NOT NULL, -- as the host calls it
    delivery_id     TEXT, -- that the host gave it; NULL: none, or sent again by us
    digest          TEXT, -- of the body, where a signature protects it; NULL: the same body can come again
    redelivery_of   TEXT, -- the id of another
    headers         TEXT NOT NULL, -- JSON
    body            TEXT NOT NULL,
    state           TEXT NOT NULL,
    reason          TEXT, -- why nothing was built
    builds          TEXT, -- JSON: hooks.BuildLink
    attempts        BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    processed_at    BIGINT
);
CREATE INDEX webhook_deliveries_pipeline ON webhook_deliveries (pipeline_id, seq);
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (pipeline_id, seq) WHERE state = 'pending';
CREATE UNIQUE INDEX webhook_deliveries_id ON webhook_deliveries (pipeline_id, delivery_id) WHERE delivery_id IS NOT NULL;
CREATE UNIQUE INDEX webhook_deliveries_digest ON webhook_deliveries (pipeline_id, digest) WHERE digest IS NOT NULL;
CREATE INDEX webhook_deliveries_old ON webhook_deliveries (created_at);

-- The event at the source host for which a build was created; JSON: builds.SourceEvent.
ALTER TABLE build_details ADD COLUMN source_event TEXT;
