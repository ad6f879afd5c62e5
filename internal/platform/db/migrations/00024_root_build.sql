-- +goose Up

-- The build that a chain of triggers began with; NULL for a build that no trigger job made. It counts how many
-- builds one build has led to, and is kept when the first build is gone.
ALTER TABLE builds ADD COLUMN root_build TEXT;
CREATE INDEX builds_root ON builds (root_build) WHERE root_build IS NOT NULL;
