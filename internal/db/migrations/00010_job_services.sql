-- +goose Up

-- The ids of changes to steps that add to what is there, so that one which is sent twice is done once.
CREATE TABLE step_updates (
    build_id   TEXT NOT NULL REFERENCES builds (id) ON DELETE CASCADE,
    id         TEXT NOT NULL, -- given by whoever sends it
    created_at BIGINT NOT NULL,
    PRIMARY KEY (build_id, id)
);
