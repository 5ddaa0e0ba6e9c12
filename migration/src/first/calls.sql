-- Calls, and what is known of them.

CREATE TABLE calls (
    id TEXT NOT NULL {key_of_calls},
    tenant_id TEXT NOT NULL,
    bridge_id TEXT NOT NULL,
    bridge_call_id TEXT NOT NULL,
    phone_number_id TEXT NOT NULL,
    agent_id TEXT,
    agent_version BIGINT,
    caller_number TEXT NOT NULL,
    callee_number TEXT NOT NULL,
    channel TEXT NOT NULL DEFAULT 'phone',
    status TEXT NOT NULL,
    -- NULL while the call runs. On SQLite no index contains `status`, so an answer writes no index.
    outcome TEXT GENERATED ALWAYS AS (CASE WHEN status IN ('ringing', 'answered') THEN NULL ELSE status END) STORED,
    owner TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    answered_at BIGINT,
    joined_at BIGINT,
    ended_at BIGINT,
    last_sign_at BIGINT NOT NULL,
    duration_seconds BIGINT,
    talk_time_seconds BIGINT,
    hangup_reason TEXT,
    hangup_initiator TEXT,
    ai_cost_idr BIGINT,
    voice_provider TEXT,
    turn_latency_ms TEXT,
    stalls BIGINT,
    interruptions BIGINT,
    answer_message_id TEXT,
    traceparent TEXT,
    failure_detail TEXT,
    pending TEXT,
    transcript_summary TEXT,
    metadata TEXT NOT NULL,
    settings TEXT
) {by_status};
{parts_of_calls};
-- For any two filters of the list but the channel: with another filter, each call of the more selective of the two is
-- looked at. Calls without a caller's number (`anonymous`, `erased`) are many; a caller with a number has
-- few, which add nothing to the indexes of nameless calls.
CREATE INDEX calls_agent_version ON {ended_calls} (agent_id, agent_version) WHERE agent_version IS NOT NULL;
CREATE INDEX calls_tenant ON {ended_calls} (tenant_id, started_at DESC, id DESC);
CREATE INDEX calls_tenant_outcome ON {ended_calls} (tenant_id, outcome, started_at DESC, id DESC);
CREATE INDEX calls_tenant_agent ON {ended_calls} (tenant_id, agent_id, started_at DESC, id DESC);
CREATE INDEX calls_tenant_number ON {ended_calls} (tenant_id, phone_number_id, started_at DESC, id DESC);
CREATE INDEX calls_tenant_channel ON {ended_calls} (tenant_id, channel, started_at DESC, id DESC);
CREATE INDEX calls_tenant_caller ON {ended_calls} (tenant_id, caller_number, started_at DESC, id DESC);
CREATE INDEX calls_tenant_agent_number ON {ended_calls} (tenant_id, agent_id, phone_number_id, started_at DESC, id DESC);
CREATE INDEX calls_agent_outcome ON {ended_calls} (tenant_id, agent_id, outcome, started_at DESC, id DESC) WHERE outcome IS NOT NULL;
CREATE INDEX calls_number_outcome ON {ended_calls} (tenant_id, phone_number_id, outcome, started_at DESC, id DESC) WHERE outcome IS NOT NULL;
CREATE INDEX calls_nameless_agent ON {ended_calls} (tenant_id, caller_number, agent_id, started_at DESC, id DESC)
    WHERE substr(caller_number, 1, 1) <> '+';
CREATE INDEX calls_nameless_number ON {ended_calls} (tenant_id, caller_number, phone_number_id, started_at DESC, id DESC)
    WHERE substr(caller_number, 1, 1) <> '+';
CREATE INDEX calls_nameless_outcome ON {ended_calls} (tenant_id, caller_number, outcome, started_at DESC, id DESC)
    WHERE substr(caller_number, 1, 1) <> '+' AND outcome IS NOT NULL;

CREATE TABLE transcripts (
    call_id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    summary TEXT NOT NULL,
    turns TEXT NOT NULL,
    created_at BIGINT NOT NULL
) {growing};

CREATE TABLE invocations (
    call_id TEXT NOT NULL,
    invocation_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    function_id TEXT,
    function_name TEXT NOT NULL,
    fault TEXT,
    duration_ms BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (call_id, invocation_id)
) {growing};
-- Answers statistics of a function alone.
CREATE INDEX invocations_function ON invocations (function_id, created_at DESC, duration_ms, fault) WHERE function_id IS NOT NULL;

-- The right of one node to call the endpoint of an invocation.
CREATE TABLE invocation_claims (
    call_id TEXT NOT NULL,
    invocation_id TEXT NOT NULL,
    node TEXT NOT NULL,
    claimed_at BIGINT NOT NULL,
    PRIMARY KEY (call_id, invocation_id)
);

-- Requests by commands to end calls, until the owning node has received them.
CREATE TABLE hangup_requests (
    call_id TEXT NOT NULL PRIMARY KEY,
    actor TEXT NOT NULL,
    node TEXT NOT NULL,
    asked_at BIGINT NOT NULL
);

-- Remains when the call's own row is removed.
CREATE TABLE erasures (
    call_id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    actor TEXT NOT NULL,
    erased_at BIGINT NOT NULL
);

-- Counts of ended calls. Each counts for its tenant (subject ''), its agent and its number.
CREATE TABLE call_stats (
    tenant_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    slot BIGINT NOT NULL,
    calls BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    ended BIGINT NOT NULL,
    dropped BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    minutes BIGINT NOT NULL,
    talk_seconds BIGINT NOT NULL,
    duration_seconds BIGINT NOT NULL,
    stalls BIGINT NOT NULL DEFAULT 0,
    interruptions BIGINT NOT NULL DEFAULT 0,
    -- Turns of agents by their latency: each counts up to its limit, in milliseconds, and above the one before.
    turns_300 BIGINT NOT NULL DEFAULT 0,
    turns_500 BIGINT NOT NULL DEFAULT 0,
    turns_700 BIGINT NOT NULL DEFAULT 0,
    turns_1000 BIGINT NOT NULL DEFAULT 0,
    turns_1500 BIGINT NOT NULL DEFAULT 0,
    turns_2000 BIGINT NOT NULL DEFAULT 0,
    turns_3000 BIGINT NOT NULL DEFAULT 0,
    turns_5000 BIGINT NOT NULL DEFAULT 0,
    turns_10000 BIGINT NOT NULL DEFAULT 0,
    turns_20000 BIGINT NOT NULL DEFAULT 0,
    turns_60000 BIGINT NOT NULL DEFAULT 0,
    turns_600000 BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, subject, slot)
) {by_key_ranges};
