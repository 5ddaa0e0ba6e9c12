//! The current minute's requests of tenants that send requests to several nodes. The table is not in PostgreSQL's
//! write-ahead log: after a crash the minute starts at zero.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use super::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let kind = match manager.get_database_backend() {
            DbBackend::Postgres => "UNLOGGED TABLE",
            _ => "TABLE",
        };
        let table = format!(
            "CREATE {kind} rate_windows (tenant_id TEXT NOT NULL PRIMARY KEY, started_at BIGINT NOT NULL, taken BIGINT NOT NULL, \
             granted BIGINT NOT NULL)"
        );
        run(manager, &[&table]).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, &["DROP TABLE rate_windows"]).await
    }
}
