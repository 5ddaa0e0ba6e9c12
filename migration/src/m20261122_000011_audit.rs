//! The audit: actor, change, time and origin. Also the actors of erasures, which need not be keys.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE audit (id TEXT NOT NULL PRIMARY KEY, tenant_id TEXT, actor TEXT NOT NULL, action TEXT NOT NULL, \
     target TEXT NOT NULL, detail TEXT NOT NULL, at BIGINT NOT NULL, address TEXT, request_id TEXT, node TEXT NOT NULL)",
        // One for each filter of entries, so that a page is read from its beginning.
        "CREATE INDEX audit_at ON audit (at DESC, id DESC)",
        "CREATE INDEX audit_tenant ON audit (tenant_id, at DESC, id DESC)",
        "CREATE INDEX audit_tenant_actor ON audit (tenant_id, actor, at DESC, id DESC)",
        "CREATE INDEX audit_tenant_action ON audit (tenant_id, action, at DESC, id DESC)",
        "CREATE INDEX audit_tenant_actor_action ON audit (tenant_id, actor, action, at DESC, id DESC)",
        // A key as an actor is written as the key's id, so existing values stay valid.
        "ALTER TABLE erasures RENAME COLUMN key_id TO actor",
    ],
    down: &[
        "ALTER TABLE erasures RENAME COLUMN actor TO key_id",
        "DROP TABLE audit",
    ],
};
