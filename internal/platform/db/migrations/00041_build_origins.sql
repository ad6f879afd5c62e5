-- +goose Up

-- What a build was created for, such as a webhook delivery or a time of a schedule: a pipeline has at most one build of
-- each origin.
ALTER TABLE builds ADD COLUMN origin TEXT;
CREATE UNIQUE INDEX builds_origin ON builds (pipeline_id, origin) WHERE origin IS NOT NULL;
