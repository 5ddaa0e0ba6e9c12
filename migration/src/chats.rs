//! The fifth step: conversations in writing with an agent, which last an hour.

use super::script::Script;

pub(crate) const STEP: Script = Script {
    name: "m20261129_000005_chats",
    sql: "CREATE TABLE chats (
        id TEXT NOT NULL PRIMARY KEY,
        tenant_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        settings TEXT NOT NULL,
        is_draft BOOLEAN NOT NULL,
        turns TEXT NOT NULL,
        messages BIGINT NOT NULL,
        cost BIGINT NOT NULL,
        answering_until BIGINT,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
    );
    CREATE INDEX chats_expires ON chats (expires_at);
    CREATE INDEX chats_tenant ON chats (tenant_id, expires_at);",
};
