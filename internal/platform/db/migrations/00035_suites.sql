-- +goose Up

-- A test suite. Its runs, tests and executions are in the results database.
CREATE TABLE suites (
    id               TEXT PRIMARY KEY,
    organization_id  TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    slug             TEXT NOT NULL,
    name             TEXT NOT NULL,
    name_folded      TEXT NOT NULL, -- lower case
    default_branch   TEXT NOT NULL,
    application_name TEXT,
    color            TEXT,
    emoji            TEXT,
    oidc_policy      TEXT, -- JSON: a string of YAML or an array of statements, as it was given
    token_hash       TEXT UNIQUE, -- NULL for a deleted suite
    token            TEXT NOT NULL, -- sealed
    created_at       BIGINT NOT NULL,
    deleted_at       BIGINT, -- from then on it is as if it did not exist, while a task removes its results
    UNIQUE (organization_id, slug),
    UNIQUE (organization_id, name_folded)
);
CREATE INDEX suites_created ON suites (organization_id, created_at, id);

CREATE TABLE team_suites (
    team_id    TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    suite_id   TEXT NOT NULL REFERENCES suites (id) ON DELETE CASCADE,
    can_edit   BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, suite_id)
);
CREATE INDEX team_suites_suite ON team_suites (suite_id);
