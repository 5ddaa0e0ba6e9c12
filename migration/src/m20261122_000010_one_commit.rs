//! From here on a message's state, minutes and events are one commit. This removes leftovers of the earlier two
//! commits: holds of calls that were never written or are over return their minutes. Events get their positions from
//! one row per tenant, so that tenants do not wait for each other's commits.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use super::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Each runs unchanged on both databases.
const UP: &[&str] = &[
    "ALTER TABLE event_positions RENAME TO event_positions_of_all",
    "CREATE TABLE event_positions (tenant_id TEXT NOT NULL PRIMARY KEY, last BIGINT NOT NULL)",
    // Each tenant continues from the global position, so that no position is reused.
    "INSERT INTO event_positions (tenant_id, last) SELECT t.id, o.last FROM \
     (SELECT id FROM tenants UNION SELECT tenant_id FROM events) AS t CROSS JOIN event_positions_of_all o",
    "DROP TABLE event_positions_of_all",
    // A call settled before its end was written, so an open hold belongs to no talk time.
    "UPDATE credit_accounts SET available = available + not_begun + begun, held = held - not_begun, used = used - begun, \
     open_holds = open_holds - holds, version = version + 1 FROM \
     (SELECT h.tenant_id, SUM(h.held) AS not_begun, SUM(h.used) AS begun, COUNT(*) AS holds \
     FROM credit_holds h WHERE h.settled_at IS NULL \
     AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.id = h.call_id AND c.ended_at IS NULL) GROUP BY h.tenant_id) AS left_open \
     WHERE credit_accounts.tenant_id = left_open.tenant_id",
    "UPDATE credit_holds SET held = 0, used = 0, settled_at = created_at WHERE settled_at IS NULL \
     AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.id = credit_holds.call_id AND c.ended_at IS NULL)",
];

const DOWN: &[&str] = &[
    "ALTER TABLE event_positions RENAME TO event_positions_by_tenant",
    "CREATE TABLE event_positions (one BIGINT PRIMARY KEY CHECK (one = 1), last BIGINT NOT NULL)",
    "INSERT INTO event_positions (one, last) SELECT 1, COALESCE(MAX(last), 0) FROM event_positions_by_tenant",
    "DROP TABLE event_positions_by_tenant",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, UP).await?;
        if manager.get_database_backend() == DbBackend::Postgres {
            // Leaves room for a new row version in the same page.
            run(
                manager,
                &["ALTER TABLE event_positions SET (fillfactor = 50)"],
            )
            .await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, DOWN).await
    }
}
