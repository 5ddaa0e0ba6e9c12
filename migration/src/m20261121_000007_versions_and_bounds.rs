//! Versions of agents, which calls name instead of copying the settings. Also the data for limits on a tenant's
//! storage: the size of an agent, and the marking of large answers, test answers and test events.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE agent_versions (agent_id TEXT NOT NULL, version BIGINT NOT NULL, tenant_id TEXT NOT NULL, \
     hash TEXT NOT NULL, settings TEXT NOT NULL, max_call_duration_minutes BIGINT NOT NULL, created_at BIGINT NOT NULL, \
     orphaned_at BIGINT, PRIMARY KEY (agent_id, version))",
        "CREATE INDEX agent_versions_orphaned ON agent_versions (orphaned_at) WHERE orphaned_at IS NOT NULL",
        // 0: the agent's first version is written when it is first needed or changed.
        "ALTER TABLE agents ADD COLUMN version BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE agents ADD COLUMN weight BIGINT NOT NULL DEFAULT 0",
        // Sums over a tenant without reading the prompts, which precede the column in the row.
        "CREATE INDEX agents_tenant_weight ON agents (tenant_id, weight)",
        // Earlier calls keep the settings in their rows.
        "ALTER TABLE calls ADD COLUMN agent_version BIGINT",
        "CREATE INDEX calls_agent_version ON calls (agent_id, agent_version) WHERE agent_version IS NOT NULL",
        "CREATE INDEX calls_tenant_agent ON calls (tenant_id, agent_id, started_at DESC, id DESC)",
        "CREATE INDEX calls_tenant_number ON calls (tenant_id, phone_number_id, started_at DESC, id DESC)",
        "CREATE INDEX calls_tenant_caller ON calls (tenant_id, caller_number, started_at DESC, id DESC)",
        "ALTER TABLE idempotency_keys ADD COLUMN size BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE idempotency_keys ADD COLUMN is_brief BOOLEAN NOT NULL DEFAULT FALSE",
        "UPDATE idempotency_keys SET size = LENGTH(body) WHERE LENGTH(body) > 2048",
        "CREATE INDEX idempotency_keys_large ON idempotency_keys (tenant_id, created_at DESC, key DESC, size) WHERE size > 0",
        "CREATE INDEX idempotency_keys_brief ON idempotency_keys (created_at) WHERE is_brief",
        "CREATE INDEX deliveries_test ON deliveries (created_at) WHERE is_test",
        "CREATE INDEX events_test ON events (occurred_at) WHERE is_test",
    ],
    down: &[
        "DROP INDEX events_test",
        "DROP INDEX deliveries_test",
        "DROP INDEX idempotency_keys_brief",
        "DROP INDEX idempotency_keys_large",
        "ALTER TABLE idempotency_keys DROP COLUMN is_brief",
        "ALTER TABLE idempotency_keys DROP COLUMN size",
        "DROP INDEX calls_tenant_caller",
        "DROP INDEX calls_tenant_number",
        "DROP INDEX calls_tenant_agent",
        "DROP INDEX calls_agent_version",
        "ALTER TABLE calls DROP COLUMN agent_version",
        "DROP INDEX agents_tenant_weight",
        "ALTER TABLE agents DROP COLUMN weight",
        "ALTER TABLE agents DROP COLUMN version",
        "DROP TABLE agent_versions",
    ],
};
