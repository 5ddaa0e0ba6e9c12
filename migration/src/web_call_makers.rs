//! The makers of tokens for calls from browsers: an API key or a member. A token ends with its maker.

use super::script::Script;

pub(crate) const STEP: Script = Script {
    name: "m20261130_000011_web_call_makers",
    sql: "ALTER TABLE web_calls ADD COLUMN maker TEXT",
};
