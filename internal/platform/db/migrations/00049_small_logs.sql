-- +goose Up

-- The beginning of a log, in the pieces that arrived. A small log has nothing else; of a larger one they are
-- moved into the archive when it is sealed.
CREATE TABLE log_pieces (
    job_id     TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    generation BIGINT NOT NULL,
    position   BIGINT NOT NULL, -- in the generation, in bytes
    content    BLOB NOT NULL,
    PRIMARY KEY (job_id, generation, position)
);

-- Whether bytes of the log are, or were, in the blob store. Only such a log is sealed.
ALTER TABLE job_logs ADD COLUMN spilled BOOLEAN NOT NULL DEFAULT TRUE;

INSERT INTO job_logs (job_id, organization_id, settled)
SELECT id, organization_id, FALSE FROM jobs
WHERE state IN ('assigned', 'accepted', 'running', 'canceling', 'timing_out') OR id IN (SELECT key FROM tasks WHERE kind = 'log-seal')
ON CONFLICT (job_id) DO NOTHING;
