-- +goose Up

-- Whether people want a test to run and its failures to count: enabled, muted or skipped.
ALTER TABLE tests ADD COLUMN state TEXT NOT NULL DEFAULT 'enabled';
CREATE INDEX tests_state ON tests (suite_id, state, scope, name) WHERE state <> 'enabled';

-- The labels that people have given tests. That a test was found to be flaky is in tests.
CREATE TABLE test_labels (
    test_id  TEXT NOT NULL,
    label    TEXT NOT NULL,
    suite_id TEXT NOT NULL,
    PRIMARY KEY (test_id, label)
) WITHOUT ROWID;
CREATE INDEX test_labels_suite ON test_labels (suite_id, label, test_id);

ALTER TABLE test_executions ADD COLUMN tags TEXT; -- JSON: values by key
