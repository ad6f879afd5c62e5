-- +goose Up

-- A promised exit status that is recorded and counts for nothing, because the organization has early failures
-- switched off.
ALTER TABLE jobs ADD COLUMN promise_ignored BOOLEAN NOT NULL DEFAULT FALSE;
