-- +goose Up

-- Where a build stands in line for concurrency groups, as an id, which sorts by the time it was made: that
-- of the build which waits for it, when a synchronous trigger started it, and otherwise one of its own. Jobs
-- with a concurrency group have it too.
ALTER TABLE builds ADD COLUMN queue_place TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN queue_place TEXT;

UPDATE builds SET queue_place = id;
WITH RECURSIVE
    waited_for (id, by_id) AS (
        SELECT b.id, j.build_id
        FROM builds b
        JOIN jobs j ON j.id = b.triggered_by
        JOIN steps s ON s.id = j.step_id
        WHERE s.rules NOT LIKE '%"async":true%'
    ),
    line (id, place) AS (
        SELECT id, by_id FROM waited_for WHERE by_id NOT IN (SELECT id FROM waited_for)
        UNION ALL
        SELECT w.id, l.place FROM line l JOIN waited_for w ON w.by_id = l.id
    )
UPDATE builds SET queue_place = line.place FROM line WHERE line.id = builds.id;
UPDATE jobs SET queue_place = (SELECT b.queue_place FROM builds b WHERE b.id = jobs.build_id)
WHERE concurrency_group IS NOT NULL;

-- Eager jobs stand in line once they can start.
UPDATE jobs SET queued = FALSE WHERE queued AND concurrency_method = 'eager' AND state = 'waiting';

-- The orders in which ordered and eager jobs get their turns, and the largest limit of those in line.
DROP INDEX jobs_queued;
CREATE INDEX jobs_queued ON jobs (organization_id, concurrency_group, queue_place, (CASE state WHEN 'waiting' THEN 1 ELSE 0 END), build_id, position, id)
    WHERE queued;
CREATE INDEX jobs_eager ON jobs (organization_id, concurrency_group, priority DESC, queue_place, build_id, position, id)
    WHERE queued AND concurrency_method = 'eager';
CREATE INDEX jobs_limits ON jobs (organization_id, concurrency_group, concurrency_limit) WHERE queued;

-- Whoever has been kept from its turn gets it now.
INSERT INTO tasks (kind, key, due_at, run_at, attempts)
SELECT DISTINCT 'pipeline-removed', organization_id, 0, 0, 0 FROM jobs WHERE queued
ON CONFLICT (kind, key) DO NOTHING;
