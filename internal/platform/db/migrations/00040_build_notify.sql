-- +goose Up

-- What the definition of a build and those uploaded to it ask to be notified of about the whole build: JSON, as written.
-- That of steps is in step_details.
CREATE TABLE build_notify (
    build_id TEXT PRIMARY KEY REFERENCES builds (id) ON DELETE CASCADE,
    items    TEXT NOT NULL
);
