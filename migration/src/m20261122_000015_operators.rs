//! What the operators' API needs: webhooks that wait, and idempotency keys that are not a tenant's.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Each works on both databases as it stands.
const UP: &[&str] = &[
    "ALTER TABLE webhooks ADD COLUMN paused_at BIGINT",
    // A tenant's keys are under the tenant's id, as they were.
    "ALTER TABLE idempotency_keys RENAME COLUMN tenant_id TO scope",
];

const DOWN: &[&str] = &[
    "ALTER TABLE idempotency_keys RENAME COLUMN scope TO tenant_id",
    "ALTER TABLE webhooks DROP COLUMN paused_at",
];

async fn run(manager: &SchemaManager<'_>, statements: &[&str]) -> Result<(), DbErr> {
    for statement in statements {
        manager
            .get_connection()
            .execute_unprepared(statement)
            .await?;
    }
    Ok(())
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, UP).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, DOWN).await
    }
}
