//! Agents' settings by content hash: changing them and changing them back stores two copies, not three.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        // The settings come last, so that the small columns are read without them.
        "CREATE TABLE agent_settings (agent_id TEXT NOT NULL, hash TEXT NOT NULL, tenant_id TEXT NOT NULL, size BIGINT NOT NULL, \
     used_at BIGINT NOT NULL, settings TEXT NOT NULL, PRIMARY KEY (agent_id, hash))",
        "INSERT INTO agent_settings (agent_id, hash, tenant_id, size, used_at, settings) \
     SELECT agent_id, hash, MIN(tenant_id), MAX(OCTET_LENGTH(settings)), MAX(created_at), MIN(settings) \
     FROM agent_versions GROUP BY agent_id, hash",
        "ALTER TABLE agent_versions DROP COLUMN settings",
        "CREATE INDEX agent_settings_tenant_size ON agent_settings (tenant_id, size)",
        "CREATE INDEX agent_versions_hash ON agent_versions (agent_id, hash)",
        "CREATE VIEW kept_versions AS SELECT v.agent_id, v.version, v.tenant_id, v.created_at, v.orphaned_at, s.settings \
     FROM agent_versions v JOIN agent_settings s ON s.agent_id = v.agent_id AND s.hash = v.hash",
    ],
    down: &[
        "DROP VIEW kept_versions",
        "DROP INDEX agent_versions_hash",
        "ALTER TABLE agent_versions ADD COLUMN settings TEXT NOT NULL DEFAULT ''",
        "UPDATE agent_versions SET settings = (SELECT s.settings FROM agent_settings s \
     WHERE s.agent_id = agent_versions.agent_id AND s.hash = agent_versions.hash)",
        "DROP TABLE agent_settings",
    ],
};
