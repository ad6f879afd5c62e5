-- +goose Up

-- Whether the agent keeps the job's environment for a while after it failed; see package lifecycle.
ALTER TABLE jobs ADD COLUMN debug BOOLEAN NOT NULL DEFAULT FALSE;
