//! The request whose answer carried a command to a bridge over HTTP, and its time. The command is kept until the
//! bridge's next request shows if it received that answer.

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
