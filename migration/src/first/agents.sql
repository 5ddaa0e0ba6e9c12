-- Agents with their functions and numbers.

CREATE TABLE agents (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    voice_id TEXT,
    voice_provider TEXT,
    voice_name TEXT,
    language TEXT NOT NULL,
    time_zone TEXT,
    conversation TEXT NOT NULL DEFAULT '{}',
    max_call_duration_minutes BIGINT NOT NULL,
    escalation_number TEXT,
    tools_enabled TEXT NOT NULL,
    is_active BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL DEFAULT 0,
    weight BIGINT NOT NULL DEFAULT 0,
    greeting_text TEXT,
    system_prompt TEXT NOT NULL
);
CREATE INDEX agents_tenant ON agents (tenant_id, id);
CREATE INDEX agents_tenant_weight ON agents (tenant_id, weight);

CREATE TABLE agent_versions (
    agent_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    max_call_duration_minutes BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    orphaned_at BIGINT,
    PRIMARY KEY (agent_id, version)
);
CREATE INDEX agent_versions_hash ON agent_versions (agent_id, hash);
CREATE INDEX agent_versions_orphaned ON agent_versions (orphaned_at) WHERE orphaned_at IS NOT NULL;

-- Equal settings of several versions are one row.
CREATE TABLE agent_settings (
    agent_id TEXT NOT NULL,
    hash TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    size BIGINT NOT NULL,
    used_at BIGINT NOT NULL,
    settings TEXT NOT NULL,
    PRIMARY KEY (agent_id, hash)
);
CREATE INDEX agent_settings_tenant_size ON agent_settings (tenant_id, size);

CREATE VIEW kept_versions AS
    SELECT v.agent_id, v.version, v.tenant_id, v.created_at, v.orphaned_at, s.settings
    FROM agent_versions v JOIN agent_settings s ON s.agent_id = v.agent_id AND s.hash = v.hash;

CREATE TABLE functions (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    method TEXT NOT NULL,
    parameters TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX functions_name ON functions (agent_id, name);

CREATE TABLE phone_numbers (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    did TEXT NOT NULL,
    label TEXT NOT NULL,
    is_active BOOLEAN NOT NULL,
    agent_id TEXT REFERENCES agents (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX phone_numbers_did ON phone_numbers (did);
CREATE INDEX phone_numbers_tenant ON phone_numbers (tenant_id, id);
CREATE INDEX phone_numbers_agent ON phone_numbers (agent_id);
