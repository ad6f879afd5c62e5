-- +goose Up

-- A stack may have reserved a runnable job: nobody else is offered it until then. NULL: nobody has.
ALTER TABLE runnable ADD COLUMN reserved_by TEXT;
ALTER TABLE runnable ADD COLUMN reserved_until BIGINT;

-- Reserved jobs are not looked at by those who look for work.
DROP INDEX runnable_best;
CREATE INDEX runnable_best ON runnable (queue_id, rule_set, priority DESC, scheduled_at, job_id) WHERE reserved_until IS NULL;
DROP INDEX runnable_share;
CREATE INDEX runnable_share ON runnable (queue_id, rule_set, pipeline_id, priority DESC, scheduled_at, job_id) WHERE reserved_until IS NULL;
CREATE INDEX runnable_oldest ON runnable (queue_id, scheduled_at, job_id) WHERE reserved_until IS NULL;
CREATE INDEX runnable_reserved ON runnable (reserved_by, reserved_until) WHERE reserved_until IS NOT NULL;

-- The one job that an agent may take, when it has registered for that.
ALTER TABLE agents ADD COLUMN only_job_id TEXT;

CREATE TABLE stacks (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    cluster_id      TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    key             TEXT NOT NULL,
    type            TEXT NOT NULL,
    queue_key       TEXT NOT NULL, -- as it was given
    metadata        TEXT NOT NULL, -- JSON: object of texts
    registered_at   BIGINT NOT NULL,
    connected_at    BIGINT NOT NULL, -- when it last called, written now and then
    deregistered_at BIGINT, -- NULL: it counts as active
    UNIQUE (organization_id, key)
);
CREATE INDEX stacks_active ON stacks (organization_id) WHERE deregistered_at IS NULL;

-- When a queue was last polled by a stack, written now and then.
CREATE TABLE queue_polls (
    queue_id  TEXT PRIMARY KEY REFERENCES queues (id) ON DELETE CASCADE,
    polled_at BIGINT NOT NULL
);

-- What stacks tell people about jobs.
CREATE TABLE stack_notifications (
    id        TEXT PRIMARY KEY,
    job_id    TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    stack_key TEXT NOT NULL,
    detail    TEXT NOT NULL,
    at        BIGINT NOT NULL
);
CREATE INDEX stack_notifications_job ON stack_notifications (job_id, at, id);

-- What happened to a job on its way to an agent, as far as the job itself does not say. Each happens
-- once: what counts is the first time.
CREATE TABLE job_milestones (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    what   TEXT NOT NULL,
    at     BIGINT NOT NULL,
    by     TEXT, -- the stack's key, or the agent's id
    PRIMARY KEY (job_id, what)
);
