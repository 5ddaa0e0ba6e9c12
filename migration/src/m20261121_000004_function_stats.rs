//! An invocation's function and fault, for statistics of a function's latency.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // One column per statement, because SQLite accepts no more.
        for column in ["function_id", "fault"] {
            let alter = Table::alter()
                .table("invocations")
                .add_column(text_null(column))
                .take();
            manager.alter_table(alter).await?;
        }
        // A covering index: an outcome of up to 64 KiB may precede the other columns in the row.
        let index = "CREATE INDEX invocations_function \
            ON invocations (function_id, created_at DESC, duration_ms, fault) WHERE function_id IS NOT NULL";
        manager
            .get_connection()
            .execute_unprepared(index)
            .await
            .map(drop)
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        db.execute_unprepared("DROP INDEX invocations_function")
            .await?;
        for column in ["fault", "function_id"] {
            let alter = Table::alter()
                .table("invocations")
                .drop_column(column)
                .take();
            manager.alter_table(alter).await?;
        }
        Ok(())
    }
}
