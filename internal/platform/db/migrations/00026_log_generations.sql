-- +goose Up

-- Deleting the log of a running job starts a new generation of it, in another place for its bytes. Chunks
-- that follow belong to that one, counted from where the deleted bytes and sections end.
ALTER TABLE job_logs ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
ALTER TABLE job_logs ADD COLUMN deleted_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE job_logs ADD COLUMN deleted_sections BIGINT NOT NULL DEFAULT 0;
