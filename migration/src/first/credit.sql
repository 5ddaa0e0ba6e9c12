-- Minutes.

CREATE TABLE credit_accounts (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    available BIGINT NOT NULL CHECK (available >= 0),
    held BIGINT NOT NULL CHECK (held >= 0),
    used BIGINT NOT NULL CHECK (used >= 0),
    purchased BIGINT NOT NULL,
    adjusted BIGINT NOT NULL,
    posted BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    open_holds BIGINT NOT NULL CHECK (open_holds >= 0),
    low_threshold BIGINT NOT NULL,
    low_armed BOOLEAN NOT NULL,
    version BIGINT NOT NULL,
    CHECK (available + held + used = purchased + adjusted)
) {changing};

CREATE TABLE credit_holds (
    call_id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    request BIGINT NOT NULL,
    held BIGINT NOT NULL CHECK (held >= 0),
    used BIGINT NOT NULL CHECK (used >= 0),
    last BOOLEAN NOT NULL,
    refusal TEXT,
    created_at BIGINT NOT NULL,
    settled_at BIGINT
) {growing_and_changing};
CREATE INDEX credit_holds_open ON credit_holds (tenant_id, call_id) WHERE settled_at IS NULL;

-- A single row, written with the first removal: all holds settled before its time may be gone.
CREATE TABLE swept_holds (
    one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    before BIGINT NOT NULL
);

CREATE TABLE credit_transactions (
    tenant_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    kind TEXT NOT NULL,
    minutes BIGINT NOT NULL,
    balance_after BIGINT NOT NULL,
    call_id TEXT,
    description TEXT,
    reference TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);
CREATE UNIQUE INDEX credit_transactions_id ON credit_transactions (id);
CREATE UNIQUE INDEX credit_transactions_key ON credit_transactions (tenant_id, idempotency_key);
