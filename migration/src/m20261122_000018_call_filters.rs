//! Indexes for two filters at once: number and agent, and the calls of an agent or a number that did not end well.
//! The latter are few, and calls that end well add nothing to their indexes.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE INDEX calls_tenant_agent_number ON calls (tenant_id, agent_id, phone_number_id, started_at DESC, id DESC)",
        "CREATE INDEX calls_agent_troubled ON calls (tenant_id, agent_id, status, started_at DESC, id DESC) \
         WHERE status IN ('dropped', 'failed')",
        "CREATE INDEX calls_number_troubled ON calls (tenant_id, phone_number_id, status, started_at DESC, id DESC) \
         WHERE status IN ('dropped', 'failed')",
    ],
    down: &[
        "DROP INDEX calls_number_troubled",
        "DROP INDEX calls_agent_troubled",
        "DROP INDEX calls_tenant_agent_number",
    ],
};
