-- +goose Up

-- Each transaction that changes a build, its steps or its jobs increases it, so that a process can keep a build in
-- memory and notice that another one changed it.
ALTER TABLE builds ADD COLUMN version BIGINT NOT NULL DEFAULT 0;

-- When a scheduled job, or one that an agent holds, must have left its state. It replaces a task for each job, and one for
-- the scheduled jobs of each build.
ALTER TABLE jobs ADD COLUMN deadline_at BIGINT;
UPDATE jobs SET deadline_at = (SELECT t.run_at FROM tasks t WHERE t.kind = 'job-deadline' AND t.key = jobs.id)
    WHERE id IN (SELECT key FROM tasks WHERE kind = 'job-deadline');
UPDATE jobs SET deadline_at = runnable_at + 60000000 * COALESCE((
        SELECT s.scheduled_job_expiry_in_minutes FROM pipeline_settings s WHERE s.organization_id = jobs.organization_id), 43200)
    WHERE type = 'script' AND state = 'scheduled';
DELETE FROM tasks WHERE kind IN ('job-deadline', 'job-expiry');
CREATE INDEX jobs_deadline ON jobs (deadline_at) WHERE deadline_at IS NOT NULL;
