-- +goose Up

-- The organization whose administrators look after an application; NULL: whoever runs the installation.
ALTER TABLE oauth_applications ADD COLUMN organization_id TEXT REFERENCES organizations (id) ON DELETE SET NULL;
CREATE INDEX oauth_applications_organization ON oauth_applications (organization_id) WHERE organization_id IS NOT NULL;
-- JSON: where the browser may be sent back to; none: to the user's own machine.
ALTER TABLE oauth_applications ADD COLUMN redirect_uris TEXT NOT NULL DEFAULT '[]';

-- One time that a user let an application act for them in an organization. All tokens that came of it
-- end with it.
CREATE TABLE oauth_grants (
    id              TEXT PRIMARY KEY,
    application_id  TEXT NOT NULL REFERENCES oauth_applications (id) ON DELETE CASCADE,
    user_id         TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    scopes          TEXT NOT NULL, -- JSON: array of identity.Scope
    created_at      BIGINT NOT NULL
);
CREATE INDEX oauth_grants_user ON oauth_grants (user_id, application_id, organization_id);
CREATE INDEX oauth_grants_application ON oauth_grants (application_id);
CREATE INDEX oauth_grants_organization ON oauth_grants (organization_id, user_id);

-- The grant that a token came of; NULL for the tokens that people make themselves.
ALTER TABLE access_tokens ADD COLUMN grant_id TEXT REFERENCES oauth_grants (id) ON DELETE CASCADE;
CREATE INDEX access_tokens_grant ON access_tokens (grant_id) WHERE grant_id IS NOT NULL;
CREATE INDEX access_tokens_granted_expiry ON access_tokens (expires_at) WHERE grant_id IS NOT NULL AND expires_at IS NOT NULL;

-- A device that waits for somebody to enter its user code.
CREATE TABLE oauth_device_requests (
    id              TEXT PRIMARY KEY, -- hash of the device code
    user_code_hash  TEXT NOT NULL UNIQUE, -- under the installation's key: a user code is short enough to be tried out
    application_id  TEXT NOT NULL REFERENCES oauth_applications (id) ON DELETE CASCADE,
    organization_id TEXT REFERENCES organizations (id) ON DELETE SET NULL, -- a hint
    scopes          TEXT NOT NULL, -- JSON: array of identity.Scope
    address         TEXT NOT NULL, -- where the device asked from
    user_agent      TEXT NOT NULL,
    state           TEXT NOT NULL, -- oauth.deviceState
    grant_id        TEXT REFERENCES oauth_grants (id) ON DELETE CASCADE, -- from the approval on
    poll_interval   BIGINT NOT NULL, -- seconds
    polled_at       BIGINT,
    polled_by       TEXT, -- oauth.credentialPlace
    slowed          BOOLEAN NOT NULL, -- the last poll was told to slow down
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL
);
CREATE INDEX oauth_device_requests_expiry ON oauth_device_requests (expires_at);
CREATE INDEX oauth_device_requests_application ON oauth_device_requests (application_id);
CREATE INDEX oauth_device_requests_organization ON oauth_device_requests (organization_id) WHERE organization_id IS NOT NULL;
CREATE INDEX oauth_device_requests_grant ON oauth_device_requests (grant_id) WHERE grant_id IS NOT NULL;

-- A code that an application got through the user's browser, to be exchanged for a token.
CREATE TABLE oauth_authorization_codes (
    id             TEXT PRIMARY KEY, -- hash of the code
    grant_id       TEXT NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    redirect_uri   TEXT NOT NULL, -- as it was asked with
    code_challenge TEXT NOT NULL,
    used           BOOLEAN NOT NULL,
    expires_at     BIGINT NOT NULL
);
CREATE INDEX oauth_authorization_codes_grant ON oauth_authorization_codes (grant_id);
CREATE INDEX oauth_authorization_codes_expiry ON oauth_authorization_codes (expires_at);

-- The refresh tokens of a grant, one after the other. Used ones stay a while, so that using one again is
-- noticed.
CREATE TABLE oauth_refresh_tokens (
    id         TEXT PRIMARY KEY, -- hash of the token
    grant_id   TEXT NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    used       BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL -- of a used one: when it is forgotten
);
CREATE INDEX oauth_refresh_tokens_grant ON oauth_refresh_tokens (grant_id);
CREATE INDEX oauth_refresh_tokens_expiry ON oauth_refresh_tokens (expires_at);

-- How often strangers did what has a limit: wrong user codes, and requests of devices.
CREATE TABLE oauth_counts (
    id       TEXT PRIMARY KEY, -- what, and by whom
    n        BIGINT NOT NULL, -- since begun_at
    begun_at BIGINT NOT NULL
);
CREATE INDEX oauth_counts_begun ON oauth_counts (begun_at);
