//! State, money and announcement of a message are one commit from here on. What two commits could leave behind goes: holds
//! whose call was never written, or is over, give their credit back. And events are ordered for each tenant by a row of its own,
//! so that tenants do not wait for one another's commits.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use super::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Each works on both databases as it stands.
const UP: &[&str] = &[
    "ALTER TABLE event_positions RENAME TO event_positions_of_all",
    "CREATE TABLE event_positions (tenant_id TEXT NOT NULL PRIMARY KEY, last BIGINT NOT NULL)",
    // Everybody goes on where all were: a position is never given twice.
    "INSERT INTO event_positions (tenant_id, last) SELECT t.id, o.last FROM \
     (SELECT id FROM tenants UNION SELECT tenant_id FROM events) AS t CROSS JOIN event_positions_of_all o",
    "DROP TABLE event_positions_of_all",
    // A call settled before its end was written, so what is left open belongs to no talk.
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
            // A new version of a row finds room in its page.
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
