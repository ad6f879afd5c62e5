-- +goose Up

-- What automatic certificates need on every replica: the account's key, certificates with their keys, and answers to
-- challenges of the certificate authority, all encrypted.
CREATE TABLE certificates (
    name       TEXT PRIMARY KEY,
    sealed     TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
