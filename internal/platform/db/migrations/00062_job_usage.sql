-- +goose Up

-- What the processes of a job used, as its agent reported. NULL: the agent does not know.
CREATE TABLE job_usage (
    job_id           TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    source           TEXT NOT NULL, -- cgroup or rusage
    cpu_user         BIGINT, -- microseconds
    cpu_system       BIGINT, -- microseconds
    peak_memory      BIGINT, -- bytes
    disk_read        BIGINT, -- bytes
    disk_written     BIGINT, -- bytes
    network_received BIGINT, -- bytes
    network_sent     BIGINT  -- bytes
);
