-- +goose Up

-- The host of a webhook that a pipeline or a step names with notify, which belongs to no service. NULL: a delivery to a
-- service.
ALTER TABLE deliveries ADD COLUMN host TEXT;

-- What notify of a build and its steps has sent, and which of that is old.
CREATE INDEX deliveries_notify ON deliveries (build_id, seq) WHERE target IS NOT NULL;
CREATE INDEX deliveries_hosts ON deliveries (created_at) WHERE host IS NOT NULL;
