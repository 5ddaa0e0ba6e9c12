//! Indexes for any two filters of calls: every final status with the agent or number (before, only calls that did not
//! end well), and calls without a caller's number (`anonymous`, `erased`) with each filter. Such calls are many; a
//! caller with a number has few, which add nothing to these indexes.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE INDEX calls_agent_over ON calls (tenant_id, agent_id, status, started_at DESC, id DESC) \
         WHERE status IN ('ended', 'dropped', 'failed')",
        "CREATE INDEX calls_number_over ON calls (tenant_id, phone_number_id, status, started_at DESC, id DESC) \
         WHERE status IN ('ended', 'dropped', 'failed')",
        "CREATE INDEX calls_nameless_agent ON calls (tenant_id, caller_number, agent_id, started_at DESC, id DESC) \
         WHERE substr(caller_number, 1, 1) <> '+'",
        "CREATE INDEX calls_nameless_number ON calls (tenant_id, caller_number, phone_number_id, started_at DESC, id DESC) \
         WHERE substr(caller_number, 1, 1) <> '+'",
        "CREATE INDEX calls_nameless_over ON calls (tenant_id, caller_number, status, started_at DESC, id DESC) \
         WHERE substr(caller_number, 1, 1) <> '+' AND status IN ('ended', 'dropped', 'failed')",
        "DROP INDEX calls_agent_troubled",
        "DROP INDEX calls_number_troubled",
    ],
    down: &[
        "CREATE INDEX calls_number_troubled ON calls (tenant_id, phone_number_id, status, started_at DESC, id DESC) \
         WHERE status IN ('dropped', 'failed')",
        "CREATE INDEX calls_agent_troubled ON calls (tenant_id, agent_id, status, started_at DESC, id DESC) \
         WHERE status IN ('dropped', 'failed')",
        "DROP INDEX calls_nameless_over",
        "DROP INDEX calls_nameless_number",
        "DROP INDEX calls_nameless_agent",
        "DROP INDEX calls_number_over",
        "DROP INDEX calls_agent_over",
    ],
};
