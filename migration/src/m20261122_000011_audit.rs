//! Who changed what, when and from where; and calls that are erased by others than keys.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE audit (id TEXT NOT NULL PRIMARY KEY, tenant_id TEXT, actor TEXT NOT NULL, action TEXT NOT NULL, \
     target TEXT NOT NULL, detail TEXT NOT NULL, at BIGINT NOT NULL, address TEXT, request_id TEXT, node TEXT NOT NULL)",
        // One for each way in which entries are asked for, so that a page of them is read from where it begins.
        "CREATE INDEX audit_at ON audit (at DESC, id DESC)",
        "CREATE INDEX audit_tenant ON audit (tenant_id, at DESC, id DESC)",
        "CREATE INDEX audit_tenant_actor ON audit (tenant_id, actor, at DESC, id DESC)",
        "CREATE INDEX audit_tenant_action ON audit (tenant_id, action, at DESC, id DESC)",
        "CREATE INDEX audit_tenant_actor_action ON audit (tenant_id, actor, action, at DESC, id DESC)",
        // An actor that is a key is written as the key's id: what is there stays right.
        "ALTER TABLE erasures RENAME COLUMN key_id TO actor",
    ],
    down: &[
        "ALTER TABLE erasures RENAME COLUMN actor TO key_id",
        "DROP TABLE audit",
    ],
};
