-- +goose Up

-- The number of each pipeline's newest build. Whoever makes a build locks this row until the build is
-- there, so numbers have no gaps.
CREATE TABLE build_numbers (
    pipeline_id TEXT PRIMARY KEY REFERENCES pipelines (id) ON DELETE CASCADE,
    newest      BIGINT NOT NULL
);

-- The row that every move of a job changes, so it is kept narrow; the rest is in build_details.
CREATE TABLE builds (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    pipeline_id     TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    cluster_id      TEXT REFERENCES clusters (id) ON DELETE SET NULL,
    number          BIGINT NOT NULL,
    branch          TEXT NOT NULL,
    commit_name     TEXT NOT NULL, -- a SHA, or what was asked for until an agent resolves it
    source          TEXT NOT NULL,
    creator_id      TEXT REFERENCES users (id) ON DELETE SET NULL,
    state           TEXT NOT NULL,
    tally           TEXT NOT NULL, -- JSON: flow.Tally
    cancel_reason   TEXT,
    waiting_jobs    BIGINT NOT NULL, -- command jobs behind others or behind a person
    scheduled_jobs  BIGINT NOT NULL, -- command jobs that wait for an agent, or for a place in their group
    running_jobs    BIGINT NOT NULL, -- command jobs that an agent has
    triggered_by    TEXT, -- the trigger job of another build
    rebuilt_from    TEXT, -- a build
    created_at      BIGINT NOT NULL,
    scheduled_at    BIGINT NOT NULL,
    started_at      BIGINT,
    failing_at      BIGINT,
    finished_at     BIGINT,
    UNIQUE (pipeline_id, number)
);
CREATE INDEX builds_newest ON builds (organization_id, created_at, id);
CREATE INDEX builds_commit ON builds (organization_id, commit_name);
CREATE INDEX builds_creator ON builds (organization_id, creator_id, created_at);
CREATE INDEX builds_branch ON builds (pipeline_id, branch, number);
CREATE INDEX builds_live ON builds (pipeline_id, state) WHERE finished_at IS NULL;
CREATE INDEX builds_finished ON builds (organization_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX builds_triggered_by ON builds (triggered_by) WHERE triggered_by IS NOT NULL;

-- What a build was asked to be.
CREATE TABLE build_details (
    build_id       TEXT PRIMARY KEY REFERENCES builds (id) ON DELETE CASCADE,
    message        TEXT, -- NULL until an agent reports that of the commit
    tag            TEXT,
    env            TEXT NOT NULL, -- JSON: variables given at creation
    pipeline_env   TEXT NOT NULL, -- JSON: variables of the pipeline at creation
    author         TEXT, -- JSON
    pull_request   TEXT, -- JSON
    clean_checkout BOOLEAN NOT NULL
);

CREATE TABLE build_meta_data (
    build_id TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    key      TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (build_id, key)
);

-- What flow knows of a step, kept narrow: the moves of its jobs change it. Joins, which nobody wrote and
-- nobody sees, are steps too.
CREATE TABLE steps (
    id                     TEXT PRIMARY KEY,
    build_id               TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    kind                   TEXT NOT NULL,
    key                    TEXT,
    position               TEXT NOT NULL,
    rules                  TEXT NOT NULL, -- JSON: what was written about when the step runs
    concurrency_group      TEXT,
    cancel_on_failing      BOOLEAN NOT NULL,
    scope                  TEXT, -- the group step that it is in
    barrier                TEXT,
    tally                  TEXT,
    uploads                TEXT,
    upload_count           BIGINT NOT NULL,
    ahead                  TEXT,
    replaced               BOOLEAN NOT NULL,
    phase                  TEXT NOT NULL,
    outcome                TEXT, -- NULL while it has not ended
    jobs                   BIGINT NOT NULL,
    unfinished             BIGINT NOT NULL,
    failed                 BIGINT NOT NULL,
    canceled               BIGINT NOT NULL,
    unmet                  BIGINT NOT NULL,
    missing                BIGINT NOT NULL,
    failed_dependencies    BIGINT NOT NULL,
    canceled_dependencies  BIGINT NOT NULL,
    gates                  BIGINT NOT NULL,
    gating                 BOOLEAN NOT NULL
);
CREATE INDEX steps_build ON steps (build_id, position);
CREATE UNIQUE INDEX steps_key ON steps (build_id, key) WHERE key IS NOT NULL AND NOT replaced;
CREATE INDEX steps_group ON steps (build_id, concurrency_group, position) WHERE concurrency_group IS NOT NULL;

-- What a step is about; written once.
CREATE TABLE step_details (
    step_id TEXT PRIMARY KEY REFERENCES steps (id) ON DELETE CASCADE,
    label   TEXT NOT NULL,
    work    TEXT NOT NULL -- JSON
);

-- A step waits for another: for the one with the key, as long as there is none.
CREATE TABLE step_dependencies (
    step_id       TEXT NOT NULL REFERENCES steps (id) ON DELETE CASCADE,
    build_id      TEXT NOT NULL,
    depends_on    TEXT,
    key           TEXT,
    allow_failure BOOLEAN NOT NULL
);
CREATE INDEX step_dependencies_step ON step_dependencies (step_id);
CREATE INDEX step_dependencies_on ON step_dependencies (depends_on) WHERE depends_on IS NOT NULL;
CREATE INDEX step_dependencies_missing ON step_dependencies (build_id, key) WHERE depends_on IS NULL;

-- Every attempt of every job. A job sorts by the position of its step and its place in it, and behind the
-- attempts before it by its id.
CREATE TABLE jobs (
    id                   TEXT PRIMARY KEY,
    organization_id      TEXT NOT NULL,
    build_id             TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    step_id              TEXT NOT NULL REFERENCES steps (id) ON DELETE CASCADE,
    position             TEXT NOT NULL,
    type                 TEXT NOT NULL,
    state                TEXT NOT NULL,
    priority             BIGINT NOT NULL,
    queue_id             TEXT, -- NULL: no agent takes it, or the cluster has no default queue
    timeout_minutes      BIGINT,
    parallel_index       BIGINT,
    parallel_total       BIGINT,
    matrix               TEXT, -- JSON: its values; then it has a row in job_details
    soft_fail            TEXT, -- JSON
    broken_reason        TEXT,
    unreachable          BOOLEAN NOT NULL,
    exit_status          BIGINT,
    signal               TEXT,
    signal_reason        TEXT,
    soft_failed          BOOLEAN NOT NULL,
    promised_exit_status BIGINT,
    promise_fails        BOOLEAN NOT NULL, -- the build fails by it
    promised_failure     BOOLEAN NOT NULL DEFAULT FALSE, -- lists by state count it as failed
    retried              BOOLEAN NOT NULL,
    retried_in           TEXT,
    retried_by           TEXT REFERENCES users (id) ON DELETE SET NULL,
    retry_of             TEXT,
    retry_type           TEXT,
    retries_count        BIGINT NOT NULL,
    rule_uses            TEXT, -- JSON: how often each rule of automatic retry was used
    concurrency_group    TEXT,
    concurrency_limit    BIGINT,
    concurrency_method   TEXT,
    queued               BOOLEAN NOT NULL, -- it has a place in the queue of its concurrency group
    concurrency_wait     BIGINT, -- in microseconds
    unblocked_by         TEXT REFERENCES users (id) ON DELETE SET NULL,
    detail               TEXT, -- why it ended as it did, in words
    created_at           BIGINT NOT NULL,
    scheduled_at         BIGINT NOT NULL, -- when it is meant to run
    limited_at           BIGINT,
    runnable_at          BIGINT,
    started_at           BIGINT,
    finished_at          BIGINT,
    expired_at           BIGINT,
    promised_at          BIGINT,
    unblocked_at         BIGINT
);
CREATE UNIQUE INDEX jobs_build ON jobs (build_id, position, id);
CREATE INDEX jobs_step ON jobs (step_id);
CREATE INDEX jobs_queued ON jobs (organization_id, concurrency_group, scheduled_at) WHERE queued;
CREATE INDEX jobs_slots ON jobs (organization_id, concurrency_group)
    WHERE concurrency_group IS NOT NULL AND state IN ('scheduled', 'reserved', 'assigned', 'accepted', 'running', 'canceling', 'timing_out');

-- What a job of a matrix has of its own in place of what its step says.
CREATE TABLE job_details (
    job_id TEXT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    label  TEXT NOT NULL,
    work   TEXT NOT NULL -- JSON
);

-- The steps that running jobs added to their build, or would have. The id is given by whoever uploads.
CREATE TABLE step_uploads (
    build_id     TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    id           TEXT NOT NULL,
    job_id       TEXT NOT NULL, -- the job that uploaded
    sequence     TEXT NOT NULL, -- orders them
    state        TEXT NOT NULL,
    replaces     BOOLEAN NOT NULL,
    created_jobs BIGINT, -- NULL when it was rejected
    rejection    TEXT,
    message      TEXT,
    bytes        BIGINT NOT NULL, -- of the definition
    definition   TEXT, -- NULL when it is too large to be kept
    env          TEXT, -- JSON: variables of all of its steps
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (build_id, id)
);
CREATE INDEX step_uploads_order ON step_uploads (build_id, sequence);

-- Lets a pipeline of one cluster reach one of another.
CREATE TABLE rules (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    type            TEXT NOT NULL,
    source_id       TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    target_id       TEXT NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    created_by      TEXT REFERENCES users (id) ON DELETE SET NULL,
    created_at      BIGINT NOT NULL,
    UNIQUE (organization_id, type, source_id, target_id)
);

-- Annotations belong to a build, or to one of its jobs.
CREATE TABLE annotations (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL,
    build_id        TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    job_id          TEXT REFERENCES jobs (id) ON DELETE CASCADE, -- NULL: the whole build's
    context         TEXT NOT NULL,
    style           TEXT,
    priority        BIGINT NOT NULL,
    body            TEXT NOT NULL, -- Markdown
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX annotations_of_build ON annotations (build_id, context) WHERE job_id IS NULL;
CREATE UNIQUE INDEX annotations_of_job ON annotations (job_id, context) WHERE job_id IS NOT NULL;
CREATE INDEX annotations_build ON annotations (build_id);

CREATE TABLE artifacts (
    id              TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL,
    build_id        TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    job_id          TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    state           TEXT NOT NULL,
    path            TEXT NOT NULL,
    mime_type       TEXT NOT NULL,
    file_size       BIGINT NOT NULL,
    sha1sum         TEXT NOT NULL,
    sha256sum       TEXT,
    location        TEXT NOT NULL, -- where its bytes are
    created_at      BIGINT NOT NULL
);
CREATE INDEX artifacts_build ON artifacts (build_id, id);
CREATE INDEX artifacts_job ON artifacts (job_id, id);
