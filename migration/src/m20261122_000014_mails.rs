//! Mails to people, each written in the transaction of what it tells.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::prelude::*;

use super::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Each works on both databases as it stands.
const UP: &[&str] = &[
    "CREATE TABLE mails (id TEXT NOT NULL PRIMARY KEY, tenant_id TEXT NOT NULL, user_id TEXT, kind TEXT NOT NULL, \
     subject TEXT NOT NULL, language TEXT, link TEXT, attempts BIGINT NOT NULL, next_at BIGINT, created_at BIGINT NOT NULL, \
     ends_at BIGINT NOT NULL)",
    "CREATE INDEX mails_due ON mails (next_at) WHERE next_at IS NOT NULL",
    "CREATE INDEX mails_tenant ON mails (tenant_id)",
    "CREATE INDEX mails_end ON mails (ends_at)",
];

const DOWN: &[&str] = &["DROP TABLE mails"];

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
