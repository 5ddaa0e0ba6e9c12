//! Pretends to be another release, for tests of the real program. It needs a debug build and the environment variable
//! `FAIL_POINT_STEPS`. `additive` and `breaking` are next releases with steps of that kind.

use std::sync::LazyLock;

use super::{
    Step,
    indexes::{ConcurrentIndex, Indexes},
    script::Script,
};

static RELEASE: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("FAIL_POINT_STEPS").ok());

const COLUMN: Script = Script {
    name: "m20991231_999997_column",
    sql: "ALTER TABLE calls ADD COLUMN of_the_next_release TEXT; \
          ALTER TABLE credit_accounts ADD COLUMN of_the_next_release BIGINT NOT NULL DEFAULT 0; \
          CREATE TABLE of_the_next_release (one BIGINT PRIMARY KEY)",
};

const INDEX: Indexes = Indexes {
    name: "m20991231_999998_index",
    indexes: &[ConcurrentIndex {
        name: "calls_of_the_next_release",
        on: "{ended_calls} (of_the_next_release, id)",
    }],
};

const BREAKING: Script = Script {
    name: "m20991231_999999_breaking",
    sql: "CREATE TABLE of_a_breaking_release (one BIGINT PRIMARY KEY)",
};

pub(crate) fn change(steps: &mut Vec<Step>) {
    match RELEASE.as_deref() {
        None => {}
        Some("additive") => {
            steps.push(Step::Additive(Box::new(COLUMN)));
            steps.push(Step::Additive(Box::new(INDEX)));
        }
        Some("breaking") => steps.push(Step::Breaking(Box::new(BREAKING))),
        Some(other) => panic!("{other:?} is no release"),
    }
}
