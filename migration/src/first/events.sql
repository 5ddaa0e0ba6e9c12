-- Events and their deliveries.

CREATE TABLE events (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    call_id TEXT,
    kind TEXT NOT NULL,
    occurred_at BIGINT NOT NULL,
    position BIGINT,
    is_test BOOLEAN NOT NULL DEFAULT FALSE,
    announced_at BIGINT,
    subscribers TEXT,
    body TEXT NOT NULL
) {growing};
CREATE UNIQUE INDEX events_position ON events (tenant_id, position);
CREATE INDEX events_call ON events (call_id, id) WHERE call_id IS NOT NULL;
CREATE INDEX events_test ON events (occurred_at) WHERE is_test;

-- The newest position of each tenant's events, and the place of each webhook's newest event. A transaction that takes
-- positions locks the row until it ends, so positions follow the order of commits, and none is reused.
CREATE TABLE event_positions (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    last BIGINT NOT NULL,
    node TEXT NOT NULL DEFAULT '',
    stamped_at BIGINT NOT NULL DEFAULT 0,
    sequences TEXT NOT NULL DEFAULT ''
) {changing};

CREATE TABLE webhooks (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    secret TEXT NOT NULL,
    secret_hint TEXT NOT NULL,
    previous_secret TEXT,
    previous_secret_until BIGINT,
    is_active BOOLEAN NOT NULL,
    disabled_reason TEXT,
    paused_at BIGINT,
    failed_in_row BIGINT NOT NULL,
    failing_since BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
) {changing};
CREATE INDEX webhooks_tenant ON webhooks (tenant_id, id);

-- How far each webhook's events have rows of deliveries, and the node that delivers. NULL: that node ended. Empty: nothing is
-- left to do, the webhook is new, or there is one node only (SQLite).
CREATE TABLE webhook_cursors (
    webhook_id TEXT NOT NULL PRIMARY KEY,
    node TEXT,
    sequence BIGINT NOT NULL,
    position BIGINT NOT NULL
) {changing};
CREATE INDEX webhook_cursors_node ON webhook_cursors (node);

CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    call_id TEXT,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    next_attempt_at BIGINT,
    is_test BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    completed_at BIGINT
) {growing_and_changing};
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_attempt_at, id) WHERE status = 'pending';
CREATE INDEX deliveries_webhook ON deliveries (webhook_id, id DESC);
CREATE INDEX deliveries_webhook_status ON deliveries (webhook_id, status, id DESC);
CREATE INDEX deliveries_event ON deliveries (event_id);
CREATE INDEX deliveries_test ON deliveries (created_at) WHERE is_test;

CREATE TABLE delivery_attempts (
    delivery_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    status_code BIGINT,
    error_kind TEXT,
    response {bytes} NOT NULL,
    PRIMARY KEY (delivery_id, number)
) {growing};
CREATE INDEX delivery_attempts_age ON delivery_attempts (started_at);

-- Requests to send failed deliveries again, which survive a restart.
CREATE TABLE recoveries (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    since BIGINT NOT NULL,
    until BIGINT NOT NULL,
    after TEXT NOT NULL,
    asked_at BIGINT NOT NULL
);
CREATE INDEX recoveries_webhook ON recoveries (webhook_id);

-- Counts of attempts, by rounded duration.
CREATE TABLE webhook_stats (
    webhook_id TEXT NOT NULL,
    hour BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    up_to_ms BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    PRIMARY KEY (webhook_id, hour, outcome, up_to_ms)
) {by_key_ranges};
CREATE INDEX webhook_stats_hour ON webhook_stats (hour);
