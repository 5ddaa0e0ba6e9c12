//! Calls by two things at once: by the number and the agent that answered it, and those of an agent or a number that did not end
//! well. Of the latter there are few, and of calls that go well nothing is written into their indexes.

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
