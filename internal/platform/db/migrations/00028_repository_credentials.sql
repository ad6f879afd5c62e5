-- +goose Up

-- The repository's URL with credentials, sealed; NULL when it has none. Older rows get theirs at the next start.
ALTER TABLE pipelines ADD COLUMN sealed_repository_url TEXT;
