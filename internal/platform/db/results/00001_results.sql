-- +goose Up

-- A run of a suite: the results that were uploaded with one key, such as those of a build.
CREATE TABLE test_runs (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    organization_id TEXT NOT NULL,
    suite_id        TEXT NOT NULL,
    key             TEXT NOT NULL,
    number          TEXT,
    branch          TEXT,
    commit_sha      TEXT,
    message         TEXT,
    url             TEXT,
    ci              TEXT,
    collector       TEXT,
    build_id        TEXT,
    pipeline_id     TEXT,
    passed          BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    skipped         BIGINT NOT NULL,
    pending         BIGINT NOT NULL,
    unknown         BIGINT NOT NULL,
    duration        BIGINT NOT NULL, -- microseconds of all executions
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    UNIQUE (suite_id, key)
);
CREATE INDEX test_runs_created ON test_runs (suite_id, created_at, seq);
CREATE INDEX test_runs_commit ON test_runs (suite_id, commit_sha, created_at) WHERE commit_sha IS NOT NULL;
CREATE INDEX test_runs_build ON test_runs (build_id) WHERE build_id IS NOT NULL;
CREATE INDEX test_runs_retention ON test_runs (organization_id, created_at);

-- The uploads of runs, so that one that is repeated counts once.
CREATE TABLE test_uploads (
    run    BIGINT NOT NULL,
    digest TEXT NOT NULL,
    id     TEXT NOT NULL,
    PRIMARY KEY (run, digest)
) WITHOUT ROWID;

-- How many runs a suite has of a pipeline.
CREATE TABLE pipeline_suites (
    pipeline_id TEXT NOT NULL,
    suite_id    TEXT NOT NULL,
    runs        BIGINT NOT NULL,
    PRIMARY KEY (pipeline_id, suite_id)
);

-- The id of a test is derived from its suite, scope and name.
CREATE TABLE tests (
    id          TEXT NOT NULL PRIMARY KEY,
    suite_id    TEXT NOT NULL,
    scope       TEXT NOT NULL,
    name        TEXT NOT NULL,
    location    TEXT,
    file_name   TEXT,
    created_at  BIGINT NOT NULL,
    last_day    BIGINT NOT NULL, -- of its newest execution, in days since 1970
    flaky_count BIGINT NOT NULL, -- rows in test_flakes
    flaky_at    BIGINT           -- of the newest
) WITHOUT ROWID;
CREATE INDEX tests_name ON tests (suite_id, scope, name);
CREATE INDEX tests_last_day ON tests (suite_id, last_day);
CREATE INDEX tests_flaky ON tests (suite_id, flaky_at) WHERE flaky_count > 0;

-- One row for each time that a test was executed, in the order of runs and tests.
CREATE TABLE test_executions (
    run              BIGINT NOT NULL, -- test_runs.seq
    test_id          TEXT NOT NULL,
    n                BIGINT NOT NULL, -- when it was uploaded, see executionNumber
    result           TEXT NOT NULL,
    duration         BIGINT NOT NULL, -- microseconds
    failure_reason   TEXT,
    failure_expanded TEXT, -- JSON
    sections         TEXT, -- JSON: how often and how long the execution was in sections such as http and sql
    PRIMARY KEY (run, test_id, n)
) WITHOUT ROWID;
CREATE INDEX test_executions_failed ON test_executions (run, n) WHERE result = 'failed';

-- What happened to a test on a day.
CREATE TABLE test_days (
    suite_id     TEXT NOT NULL,
    day          BIGINT NOT NULL,
    test_id      TEXT NOT NULL,
    passed       BIGINT NOT NULL,
    failed       BIGINT NOT NULL,
    skipped      BIGINT NOT NULL DEFAULT 0,
    pending      BIGINT NOT NULL DEFAULT 0,
    unknown      BIGINT NOT NULL DEFAULT 0,
    flaky        BIGINT NOT NULL DEFAULT 0, -- commits on which the test was found to be flaky that day
    duration_sum BIGINT NOT NULL, -- microseconds
    duration_min BIGINT NOT NULL,
    duration_max BIGINT NOT NULL,
    PRIMARY KEY (suite_id, day, test_id)
) WITHOUT ROWID;

-- The commits on which a test both passed and failed.
CREATE TABLE test_flakes (
    suite_id   TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    test_id    TEXT NOT NULL,
    branch     TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (suite_id, commit_sha, test_id)
);
CREATE INDEX test_flakes_created ON test_flakes (suite_id, created_at);
CREATE INDEX test_flakes_branch ON test_flakes (suite_id, branch, test_id);
