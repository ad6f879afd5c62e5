-- +goose Up

-- What the whole installation shares, one row each: its id, the fingerprint of its secret key.
CREATE TABLE installation (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
