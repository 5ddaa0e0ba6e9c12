//! The fourth step: calls from browsers. They call an agent, so `calls.phone_number_id` may be null.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{DbBackend, Statement},
};

pub(crate) struct WebCalls;

pub(crate) const STEP: WebCalls = WebCalls;

const TABLES: &str = "ALTER TABLE bridges ADD COLUMN is_web BOOLEAN NOT NULL DEFAULT FALSE;
    CREATE TABLE web_calls (
        hash TEXT NOT NULL PRIMARY KEY,
        tenant_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        caller_number TEXT NOT NULL,
        settings TEXT,
        is_detailed BOOLEAN NOT NULL,
        expires_at BIGINT NOT NULL,
        used_at BIGINT
    );
    CREATE INDEX web_calls_expires ON web_calls (expires_at);
    CREATE INDEX web_calls_tenant ON web_calls (tenant_id, expires_at);";

/// SQLite has no statement for this. Rows stay as they are, so its documentation has the text of the table changed, and the version
/// of the schema raised (<https://sqlite.org/lang_altertable.html#otheralter>).
const WITHOUT_NOT_NULL: &str = "UPDATE sqlite_schema SET sql = replace(sql, 'phone_number_id TEXT NOT NULL', 'phone_number_id TEXT') \
    WHERE type = 'table' AND name = 'calls'";

impl MigrationName for WebCalls {
    fn name(&self) -> &'static str {
        "m20261129_000004_web"
    }
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]
#[async_trait::async_trait]
impl MigrationTrait for WebCalls {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        db.execute_unprepared(TABLES).await?;
        let backend = manager.get_database_backend();
        if backend == DbBackend::Postgres {
            let nullable = "ALTER TABLE calls ALTER COLUMN phone_number_id DROP NOT NULL";
            return db.execute_unprepared(nullable).await.map(drop);
        }
        let version = Statement::from_string(backend, "PRAGMA schema_version");
        let version = db.query_one_raw(version).await?;
        let version: i64 = version.map_or(Ok(0), |row| row.try_get_by_index(0))?;
        db.execute_unprepared("PRAGMA writable_schema = ON").await?;
        let changed = db.execute_unprepared(WITHOUT_NOT_NULL).await?;
        let raised = format!("PRAGMA schema_version = {}", version + 1);
        db.execute_unprepared(&raised).await?;
        db.execute_unprepared("PRAGMA writable_schema = OFF")
            .await?;
        match changed.rows_affected() {
            1 => Ok(()),
            _ => Err(DbErr::Custom("the table calls is missing".to_owned())),
        }
    }
}
