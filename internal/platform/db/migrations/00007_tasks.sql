-- +goose Up

-- Work to be done at a time. A row is gone when its work is done.
CREATE TABLE tasks (
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    payload    TEXT, -- JSON
    due_at     BIGINT NOT NULL, -- when it was to be run
    run_at     BIGINT NOT NULL, -- when to look at it next: due_at, another attempt, or the end of a lease
    again_at   BIGINT, -- when to run it once more, because it was asked for while it was being run
    lease      TEXT, -- the token of whoever runs it
    attempts   BIGINT NOT NULL,
    last_error TEXT,
    PRIMARY KEY (kind, key)
);
CREATE INDEX tasks_next ON tasks (kind, run_at);
