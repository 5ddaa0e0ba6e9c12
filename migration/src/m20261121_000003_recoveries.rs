//! Recoveries: requests to send failed deliveries again, which survive a restart.

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
        manager.create_table(recovery()).await?;
        manager
            .get_connection()
            .execute_unprepared("CREATE INDEX recoveries_webhook ON recoveries (webhook_id)")
            .await
            .map(drop)
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("recoveries").take())
            .await
    }
}

fn recovery() -> TableCreateStatement {
    Table::create()
        .table("recoveries")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text("webhook_id"))
        .col(big_integer("since"))
        .col(big_integer("until"))
        .col(text("after"))
        .col(big_integer("asked_at"))
        .foreign_key(
            ForeignKey::create()
                .from("recoveries", "webhook_id")
                .to("webhooks", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .take()
}
