-- +goose Up

-- Agents that are connected and cannot be given a job. Each replica compares them with what it remembers.
CREATE INDEX agents_steered ON agents (id)
    WHERE state IN ('connected', 'stopping') AND (paused_at IS NOT NULL OR state = 'stopping' OR queue_id IS NULL);
