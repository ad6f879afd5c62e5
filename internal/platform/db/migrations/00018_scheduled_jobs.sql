-- +goose Up

-- What stacks are shown of a runnable job's step, so that they can be shown a thousand jobs without
-- looking each of them up.
ALTER TABLE runnable ADD COLUMN step_key TEXT;
UPDATE runnable SET step_key = (SELECT s.key FROM jobs j JOIN steps s ON s.id = j.step_id WHERE j.id = runnable.job_id);
