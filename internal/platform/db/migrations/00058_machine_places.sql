-- +goose Up

-- The machine of the remote provider that runs a machine's agent; NULL: the server itself does.
ALTER TABLE machines ADD COLUMN place TEXT;
CREATE INDEX machines_place ON machines (place) WHERE place IS NOT NULL;
