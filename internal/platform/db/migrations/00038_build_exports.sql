-- +goose Up

-- Finished builds that are to be exported; see package buildexports. Rows refer to builds without a foreign key: they
-- are removed when the build was exported, or is not found.
CREATE TABLE build_exports (
    build_id        TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL,
    event           BIGINT NOT NULL, -- number of the event with which the build finished last
    attempts        BIGINT NOT NULL,
    next_at         BIGINT NOT NULL,
    last_error      TEXT,
    created_at      BIGINT NOT NULL
);
CREATE INDEX build_exports_next ON build_exports (organization_id, next_at);

INSERT INTO event_cursors (id, seq) SELECT 'build-exports', COALESCE(MAX(seq), 0) FROM events;
INSERT INTO event_wants (organization_id, consumer, names)
SELECT organization_id, 'build-exports', '["build.finished"]' FROM pipeline_settings WHERE build_export_location IS NOT NULL;
UPDATE event_wants_version SET version = version + 1 WHERE id = 1;
