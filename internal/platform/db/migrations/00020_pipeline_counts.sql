-- +goose Up

-- The unfinished builds of each pipeline and their command jobs. The counts of a pipeline are the sums
-- over its rows; a build changes the row of the last digit of its id.
CREATE TABLE pipeline_counts (
    pipeline_id      TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    slot             TEXT NOT NULL,
    scheduled_builds BIGINT NOT NULL,
    running_builds   BIGINT NOT NULL,
    scheduled_jobs   BIGINT NOT NULL,
    running_jobs     BIGINT NOT NULL,
    waiting_jobs     BIGINT NOT NULL,
    PRIMARY KEY (pipeline_id, slot)
);

INSERT INTO pipeline_counts (pipeline_id, slot, scheduled_builds, running_builds, scheduled_jobs, running_jobs, waiting_jobs)
SELECT pipeline_id, SUBSTR(id, LENGTH(id)),
    SUM(CASE WHEN state IN ('creating', 'scheduled') THEN 1 ELSE 0 END),
    SUM(CASE WHEN state IN ('running', 'failing', 'canceling') THEN 1 ELSE 0 END),
    SUM(scheduled_jobs), SUM(running_jobs), SUM(waiting_jobs)
FROM builds
WHERE finished_at IS NULL
GROUP BY pipeline_id, SUBSTR(id, LENGTH(id));
