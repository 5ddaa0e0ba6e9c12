//! The oldest step that a program must know to serve from this schema. Each node reads it with every renewal of its lease.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE schema_compatibility (one BIGINT PRIMARY KEY CHECK (one = 1), serves_from BIGINT NOT NULL)",
        // The release before this step knew 27 steps.
        "INSERT INTO schema_compatibility (one, serves_from) VALUES (1, 27)",
    ],
    down: &["DROP TABLE schema_compatibility"],
};
