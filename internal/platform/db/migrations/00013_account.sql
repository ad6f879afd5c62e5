-- +goose Up
-- Somebody signed in, in one browser.
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    hash       TEXT NOT NULL UNIQUE, -- of what the browser's cookie holds
    method     TEXT NOT NULL, -- account.Method
    address    TEXT NOT NULL, -- of the latest visit
    user_agent TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL, -- to a few minutes
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expires ON sessions (expires_at);

-- A link that lets a user set a password, once.
CREATE TABLE sign_in_links (
    hash       TEXT PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sign_in_links_user ON sign_in_links (user_id);

-- Attempts to sign in that failed or have not ended, by address, by account and by both.
CREATE TABLE sign_in_attempts (
    key      TEXT PRIMARY KEY, -- a hash: people mistype passwords into the field for the email
    attempts BIGINT NOT NULL,
    ends_at  BIGINT NOT NULL -- when they are forgotten
);
CREATE INDEX sign_in_attempts_ends ON sign_in_attempts (ends_at);

ALTER TABLE access_tokens ADD COLUMN last_used_at BIGINT; -- to a minute
ALTER TABLE access_tokens ADD COLUMN last_used_address TEXT;
