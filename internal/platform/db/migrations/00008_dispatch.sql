-- +goose Up

-- Who has a job, or had it when it ended: an agent.
ALTER TABLE jobs ADD COLUMN agent_id TEXT;
CREATE INDEX jobs_held ON jobs (agent_id)
    WHERE agent_id IS NOT NULL AND state IN ('assigned', 'accepted', 'running', 'canceling', 'timing_out');
CREATE INDEX jobs_busy ON jobs (queue_id, build_id)
    WHERE agent_id IS NOT NULL AND state IN ('assigned', 'accepted', 'running', 'canceling', 'timing_out');

-- What a job asks of its agent besides the queue; NULL: nothing.
ALTER TABLE jobs ADD COLUMN rule_set TEXT;

-- The sets of agent query rules that jobs have had. The id is a hash of the rules, so the same rules are
-- the same set in every build. Sets are never changed, and are few.
CREATE TABLE rule_sets (
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id              TEXT NOT NULL,
    rules           TEXT NOT NULL, -- JSON: array of key=value, sorted
    PRIMARY KEY (organization_id, id)
);

-- The command jobs that are scheduled, and no others: what can be handed to agents.
CREATE TABLE runnable (
    job_id          TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    organization_id TEXT NOT NULL,
    build_id        TEXT NOT NULL,
    pipeline_id     TEXT NOT NULL,
    queue_id        TEXT, -- NULL: the cluster has no default queue, so no agent takes it
    rule_set        TEXT NOT NULL, -- empty: no rules
    priority        BIGINT NOT NULL,
    scheduled_at    BIGINT NOT NULL,
    retry_from      TEXT -- the agent that had the attempt before; NULL: it is the first, or nobody had it
);
-- The best job of a queue among those with the same rules comes first; also for each pipeline.
CREATE INDEX runnable_best ON runnable (queue_id, rule_set, priority DESC, scheduled_at, job_id);
CREATE INDEX runnable_share ON runnable (queue_id, rule_set, pipeline_id, priority DESC, scheduled_at, job_id);

-- Jobs from before get their rows by a task, which reads what their steps ask for.
INSERT INTO tasks (kind, key, due_at, run_at, attempts)
SELECT 'job-rules', '', 0, 0, 0 FROM builds LIMIT 1;
