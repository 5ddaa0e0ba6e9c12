//! Operators' sessions that were signed out, until they would have expired.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE operator_sign_outs (session_hash TEXT NOT NULL PRIMARY KEY, ends_at BIGINT NOT NULL)",
        "CREATE INDEX operator_sign_outs_end ON operator_sign_outs (ends_at)",
    ],
    down: &["DROP TABLE operator_sign_outs"],
};
