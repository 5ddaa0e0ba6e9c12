//! Mails to people, each written in the transaction of its cause.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE mails (id TEXT NOT NULL PRIMARY KEY, tenant_id TEXT NOT NULL, user_id TEXT, kind TEXT NOT NULL, \
     subject TEXT NOT NULL, language TEXT, link TEXT, attempts BIGINT NOT NULL, next_at BIGINT, created_at BIGINT NOT NULL, \
     ends_at BIGINT NOT NULL)",
        "CREATE INDEX mails_due ON mails (next_at) WHERE next_at IS NOT NULL",
        "CREATE INDEX mails_tenant ON mails (tenant_id)",
        "CREATE INDEX mails_end ON mails (ends_at)",
    ],
    down: &["DROP TABLE mails"],
};
