-- +goose Up

-- What uploads say about the days of tests, until it is added to test_days. One row for each upload, so that a test
-- which is uploaded again and again is added once.
CREATE TABLE test_day_changes (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    suite_id TEXT NOT NULL,
    day      BIGINT NOT NULL,
    tests    BIGINT NOT NULL,
    changes  TEXT NOT NULL -- see encodeDays
);
CREATE INDEX test_day_changes_suite ON test_day_changes (suite_id, seq, tests);
