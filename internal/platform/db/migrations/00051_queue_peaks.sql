-- +goose Up

-- The most jobs of a queue that waited, and that ran, at the same time.
ALTER TABLE queue_waits ADD COLUMN waiting_max BIGINT NOT NULL DEFAULT 0;
ALTER TABLE queue_waits ADD COLUMN running_max BIGINT NOT NULL DEFAULT 0;

UPDATE event_wants SET names = '["job.scheduled","job.started"]' WHERE consumer = 'queue-metrics' AND names <> '[]';
UPDATE event_wants_version SET version = version + 1 WHERE id = 1;
