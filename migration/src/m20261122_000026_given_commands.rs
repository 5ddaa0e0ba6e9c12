//! With which request's answer a command went to a bridge that speaks HTTP, and when: it is kept until the bridge's next request says
//! whether it has that answer.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "ALTER TABLE bridge_commands ADD COLUMN given_with TEXT",
        "ALTER TABLE bridge_commands ADD COLUMN given_at BIGINT",
    ],
    down: &[
        "ALTER TABLE bridge_commands DROP COLUMN given_at",
        "ALTER TABLE bridge_commands DROP COLUMN given_with",
    ],
};
