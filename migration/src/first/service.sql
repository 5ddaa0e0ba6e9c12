-- What the nodes of the service keep about themselves, and what requests leave for their repeats.

-- The oldest step that a program must know to serve from this schema. Each node reads it with every renewal of its lease.
CREATE TABLE schema_compatibility (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    serves_from BIGINT NOT NULL
);
INSERT INTO schema_compatibility (one, serves_from) VALUES (1, 1);

-- A row that the readiness check updates, to test that commits work. The padding makes that commit as large as others.
CREATE TABLE commit_probe (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    commits BIGINT NOT NULL,
    padding {bytes}
);
INSERT INTO commit_probe (one, commits) VALUES (1, 0);

CREATE TABLE nodes (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    address TEXT NOT NULL,
    process TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    bridges BIGINT NOT NULL,
    ahead_ms BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE bridges (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    node TEXT,
    created_at BIGINT NOT NULL,
    connected_at BIGINT,
    last_seen_at BIGINT,
    revoked_at BIGINT
) {changing};
CREATE UNIQUE INDEX bridges_hash ON bridges (hash);

-- Commands for bridges at other nodes. `given_with` is the request whose answer carried the command to a bridge over HTTP.
CREATE TABLE bridge_commands (
    id TEXT NOT NULL PRIMARY KEY,
    bridge_id TEXT NOT NULL,
    command TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    given_with TEXT,
    given_at BIGINT
);
CREATE INDEX bridge_commands_bridge ON bridge_commands (bridge_id, id);

-- Answers to requests with an `Idempotency-Key`. The scope is a tenant's id, or that of the operators. The call that an answer
-- is about lets an erasure find the answer by key.
CREATE TABLE idempotency_keys (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    status BIGINT,
    location TEXT,
    created_at BIGINT NOT NULL,
    size BIGINT NOT NULL DEFAULT 0,
    is_brief BOOLEAN NOT NULL DEFAULT FALSE,
    node TEXT NOT NULL DEFAULT '',
    call_id TEXT,
    body TEXT,
    PRIMARY KEY (scope, key)
) {growing_and_changing};
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_brief ON idempotency_keys (created_at) WHERE is_brief;
CREATE INDEX idempotency_keys_large ON idempotency_keys (scope, created_at DESC, key DESC, size) WHERE size > 0;
CREATE INDEX idempotency_keys_of_calls ON idempotency_keys (call_id) WHERE call_id IS NOT NULL;

-- The current minute's requests of tenants that send requests to several nodes. After a crash the minute starts at zero.
CREATE {unlogged} TABLE rate_windows (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    started_at BIGINT NOT NULL,
    taken BIGINT NOT NULL,
    granted BIGINT NOT NULL
);

-- An index for each filter of entries, so that a page is read from its beginning.
CREATE TABLE audit (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL,
    at BIGINT NOT NULL,
    address TEXT,
    request_id TEXT,
    node TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at DESC, id DESC);
CREATE INDEX audit_tenant ON audit (tenant_id, at DESC, id DESC);
CREATE INDEX audit_tenant_actor ON audit (tenant_id, actor, at DESC, id DESC);
CREATE INDEX audit_tenant_action ON audit (tenant_id, action, at DESC, id DESC);
CREATE INDEX audit_tenant_actor_action ON audit (tenant_id, actor, action, at DESC, id DESC);
