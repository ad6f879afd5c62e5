-- +goose Up

-- How often somebody did what may be done only so often within some minutes: failed to sign in, entered a
-- wrong code, asked for a device. There was a table for signing in and one for OAuth.
CREATE TABLE tries (
    key     TEXT PRIMARY KEY, -- what, and by whom; a hash where people type it
    n       BIGINT NOT NULL,
    ends_at BIGINT NOT NULL -- when they are forgotten
);
CREATE INDEX tries_ends ON tries (ends_at);

INSERT INTO tries (key, n, ends_at) SELECT key, attempts, ends_at FROM sign_in_attempts;
INSERT INTO tries (key, n, ends_at) SELECT id, n, begun_at + 600000000 FROM oauth_counts;

DROP TABLE sign_in_attempts;
DROP TABLE oauth_counts;
