//! Keeps a store from growing without bound: a record of erasures, the progress of removing settled holds, and
//! settings for PostgreSQL. Those leave room in pages of rows that change often, and vacuum large tables before a
//! fifth of them is dead.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::{prelude::*, schema::*, sea_orm::DbBackend};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The fill factor, in percent, of tables whose rows are updated. A new row version then fits in the same page and
/// needs no new index entries unless an indexed column changed.
const CHANGING: &[(&str, u32)] = &[
    ("calls", 80),
    ("deliveries", 80),
    ("credit_holds", 80),
    ("idempotency_keys", 80),
    // A few rows that change constantly.
    ("credit_accounts", 50),
    ("event_positions", 10),
    ("bridges", 50),
    ("webhooks", 50),
];
/// Tables vacuumed and analysed after a fixed number of changes plus one percent of the table, not after a fifth.
const LARGE: &[&str] = &[
    "calls",
    "deliveries",
    "credit_holds",
    "idempotency_keys",
    "delivery_attempts",
    "events",
    "invocations",
    "transcripts",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(erasure()).await?;
        manager.create_table(swept()).await?;
        if manager.get_database_backend() == DbBackend::Postgres {
            let db = manager.get_connection();
            for (table, share) in CHANGING {
                db.execute_unprepared(&format!("ALTER TABLE {table} SET (fillfactor = {share})"))
                    .await?;
            }
            for table in LARGE {
                let sql = format!(
                    "ALTER TABLE {table} SET (autovacuum_vacuum_threshold = 1000, \
                     autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_threshold = 1000, \
                     autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05)"
                );
                db.execute_unprepared(&sql).await?;
            }
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        if manager.get_database_backend() == DbBackend::Postgres {
            let db = manager.get_connection();
            for table in LARGE {
                let sql = format!(
                    "ALTER TABLE {table} RESET (autovacuum_vacuum_threshold, autovacuum_vacuum_scale_factor, \
                     autovacuum_analyze_threshold, autovacuum_analyze_scale_factor, autovacuum_vacuum_insert_scale_factor)"
                );
                db.execute_unprepared(&sql).await?;
            }
            for (table, _) in CHANGING {
                db.execute_unprepared(&format!("ALTER TABLE {table} RESET (fillfactor)"))
                    .await?;
            }
        }
        for table in ["swept_holds", "erasures"] {
            manager
                .drop_table(Table::drop().table(table).take())
                .await?;
        }
        Ok(())
    }
}

/// Records that a call was erased. It remains when the call's own row is removed.
fn erasure() -> TableCreateStatement {
    Table::create()
        .table("erasures")
        .col(text("call_id").primary_key())
        .col(text("tenant_id"))
        .col(text("key_id"))
        .col(big_integer("erased_at"))
        .take()
}

/// A single row, written with the first removal: all holds settled before its time may be gone.
fn swept() -> TableCreateStatement {
    Table::create()
        .table("swept_holds")
        .col(
            big_integer("one")
                .primary_key()
                .check(Expr::cust("one = 1")),
        )
        .col(big_integer("before"))
        .take()
}
