-- +goose Up

-- How much organizations store, counted when rows change; see package usage.
CREATE TABLE stored_bytes (
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    kind            TEXT NOT NULL, -- usage.Kind
    bytes           BIGINT NOT NULL,
    objects         BIGINT NOT NULL,
    PRIMARY KEY (organization_id, kind)
);
INSERT INTO stored_bytes (organization_id, kind, bytes, objects)
SELECT a.organization_id, 'artifacts', CAST(SUM(a.file_size) AS BIGINT), COUNT(*)
FROM artifacts a
JOIN organizations o ON o.id = a.organization_id
WHERE a.state = 'finished' AND a.location = ''
GROUP BY a.organization_id;

-- The oldest artifacts of an organization, which expire first.
CREATE INDEX artifacts_age ON artifacts (organization_id, created_at, id) WHERE state = 'finished' AND location = '';
