-- +goose Up

-- The stack that issued the token with which an agent registered for one job.
ALTER TABLE agents ADD COLUMN stack_id TEXT;

-- De-registering a stack removes its row.
DELETE FROM stacks WHERE deregistered_at IS NOT NULL;
DROP INDEX stacks_active;
ALTER TABLE stacks DROP COLUMN deregistered_at;
CREATE INDEX stacks_connected ON stacks (connected_at);
