//! The nodes with their leases, the node of each bridge's newest socket, commands for bridges at other nodes, and
//! claims of invocations.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE nodes (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, address TEXT NOT NULL, process TEXT NOT NULL, \
         version TEXT NOT NULL, started_at BIGINT NOT NULL, lease_until BIGINT NOT NULL, calls BIGINT NOT NULL, \
         bridges BIGINT NOT NULL)",
        "ALTER TABLE bridges ADD COLUMN node TEXT",
        "ALTER TABLE bridges ADD COLUMN last_frame_at BIGINT",
        "CREATE TABLE bridge_commands (id TEXT NOT NULL PRIMARY KEY, bridge_id TEXT NOT NULL, command TEXT NOT NULL, \
         created_at BIGINT NOT NULL)",
        "CREATE INDEX bridge_commands_bridge ON bridge_commands (bridge_id, id)",
        "CREATE INDEX calls_running_bridge ON calls (bridge_id, id) WHERE status IN ('ringing', 'answered')",
        "CREATE TABLE invocation_claims (call_id TEXT NOT NULL, invocation_id TEXT NOT NULL, node TEXT NOT NULL, \
         claimed_at BIGINT NOT NULL, PRIMARY KEY (call_id, invocation_id))",
    ],
    down: &[
        "DROP TABLE invocation_claims",
        "DROP INDEX calls_running_bridge",
        "DROP TABLE bridge_commands",
        "ALTER TABLE bridges DROP COLUMN last_frame_at",
        "ALTER TABLE bridges DROP COLUMN node",
        "DROP TABLE nodes",
    ],
};
