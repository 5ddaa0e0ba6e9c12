//! A row that the readiness check updates, to test that commits work.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        db.execute_unprepared(
            "CREATE TABLE commit_probe (one BIGINT PRIMARY KEY CHECK (one = 1), commits BIGINT NOT NULL)",
        )
        .await?;
        db.execute_unprepared("INSERT INTO commit_probe (one, commits) VALUES (1, 0)")
            .await
            .map(drop)
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("commit_probe").take())
            .await
    }
}
