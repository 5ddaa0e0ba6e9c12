//! The sixth step: widgets, and the visitors of websites who call by them.

use super::script::Script;

pub(crate) const STEP: Script = Script {
    name: "m20261129_000006_widgets",
    sql: "CREATE TABLE widgets (
        id TEXT NOT NULL PRIMARY KEY,
        tenant_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        name TEXT NOT NULL,
        key TEXT NOT NULL,
        origins TEXT NOT NULL,
        calls_per_visitor BIGINT NOT NULL,
        max_concurrent BIGINT NOT NULL,
        texts TEXT NOT NULL,
        color TEXT,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
    );
    CREATE UNIQUE INDEX widgets_key ON widgets (key);
    CREATE INDEX widgets_tenant ON widgets (tenant_id, id);
    CREATE INDEX widgets_agent ON widgets (agent_id);
    ALTER TABLE web_calls ADD COLUMN widget_id TEXT;
    ALTER TABLE web_calls ADD COLUMN visitor TEXT;
    CREATE INDEX web_calls_widget ON web_calls (widget_id, used_at) WHERE widget_id IS NOT NULL;
    CREATE INDEX web_calls_visitor ON web_calls (widget_id, visitor, used_at) WHERE widget_id IS NOT NULL",
};
