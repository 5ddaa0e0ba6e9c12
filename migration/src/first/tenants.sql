-- Tenants, and who may act for them.

CREATE TABLE tenants (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    plan TEXT NOT NULL,
    rate_limit BIGINT,
    max_concurrent_calls BIGINT,
    function_secret TEXT NOT NULL,
    suspended_at BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    hash TEXT NOT NULL,
    made_by TEXT,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    revoked_at BIGINT
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    language TEXT,
    time_zone TEXT,
    password_hash TEXT,
    mails_low_credit BOOLEAN NOT NULL,
    mails_disabled_webhooks BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (email);
CREATE INDEX users_tenant ON users (tenant_id, id);

CREATE TABLE login_links (
    hash TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    consumed_at BIGINT
);
CREATE INDEX login_links_user ON login_links (user_id);
CREATE INDEX login_links_end ON login_links (expires_at);

CREATE TABLE sessions (
    hash TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    by_link BOOLEAN NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL,
    note TEXT,
    created_at BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_tenant ON sessions (tenant_id);
CREATE INDEX sessions_end ON sessions (ends_at);

CREATE TABLE sign_in_failures (
    subject TEXT NOT NULL PRIMARY KEY,
    failed_at TEXT NOT NULL,
    ends_at BIGINT NOT NULL
);
CREATE INDEX sign_in_failures_end ON sign_in_failures (ends_at);

-- Operators' sessions that were signed out, until they would have expired.
CREATE TABLE operator_sign_outs (
    session_hash TEXT NOT NULL PRIMARY KEY,
    ends_at BIGINT NOT NULL
);
CREATE INDEX operator_sign_outs_end ON operator_sign_outs (ends_at);

-- Mails to people, each written in the transaction of its cause.
CREATE TABLE mails (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    user_id TEXT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    language TEXT,
    link TEXT,
    attempts BIGINT NOT NULL,
    next_at BIGINT,
    created_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL
);
CREATE INDEX mails_due ON mails (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX mails_tenant ON mails (tenant_id);
CREATE INDEX mails_end ON mails (ends_at);
