-- +goose Up

-- Until when a source host that limited requests, or did not answer, gets none that can wait.
ALTER TABLE source_connections ADD COLUMN paused_until BIGINT;
