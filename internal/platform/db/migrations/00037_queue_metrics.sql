-- +goose Up

-- How long jobs of a queue waited for an agent, by when they started; see package queuemetrics. Rows refer to queues
-- without a foreign key: they are removed by age.
CREATE TABLE queue_waits (
    queue_id  TEXT NOT NULL,
    width     BIGINT NOT NULL, -- seconds that the row covers
    starts_at BIGINT NOT NULL,
    waits     TEXT NOT NULL,   -- JSON: queuemetrics.histogram
    PRIMARY KEY (queue_id, width, starts_at)
);
CREATE INDEX queue_waits_age ON queue_waits (width, starts_at, queue_id);

INSERT INTO event_cursors (id, seq) SELECT 'queue-metrics', COALESCE(MAX(seq), 0) FROM events;
INSERT INTO event_wants (organization_id, consumer, names)
SELECT organization_id, 'queue-metrics', '["job.started"]' FROM pipeline_settings WHERE queue_metrics_enabled_at IS NOT NULL;
UPDATE event_wants_version SET version = version + 1 WHERE id = 1;
