//! Calls of an agent or on a number whose caller is known by no number (`anonymous`, `erased`): one caller has a great many of
//! those. A caller with a number has few, and of such calls nothing is written into these indexes.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE INDEX calls_nameless_agent ON calls (tenant_id, caller_number, agent_id, started_at DESC, id DESC) \
         WHERE substr(caller_number, 1, 1) <> '+'",
        "CREATE INDEX calls_nameless_number ON calls (tenant_id, caller_number, phone_number_id, started_at DESC, id DESC) \
         WHERE substr(caller_number, 1, 1) <> '+'",
    ],
    down: &[
        "DROP INDEX calls_nameless_number",
        "DROP INDEX calls_nameless_agent",
    ],
};
