//! Steps that build indexes of large tables.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DbBackend},
};

use super::{script::spelled, state::rows};

/// A step that builds indexes. On PostgreSQL they are built concurrently, outside of a transaction, so the table can be read and
/// written meanwhile. The next try starts an interrupted build again. Such a step is [`Additive`](super::Step::Additive).
pub(crate) struct Indexes {
    pub(crate) name: &'static str,
    pub(crate) indexes: &'static [ConcurrentIndex],
}

/// An index; never a unique one, which would refuse rows that an earlier release writes.
pub(crate) struct ConcurrentIndex {
    pub(crate) name: &'static str,
    /// Table, columns and condition: `{ended_calls} (tenant_id, id) WHERE agent_id IS NOT NULL`. Words in braces are those of
    /// [`Script`](super::script::Script). PostgreSQL builds none concurrently over a table with partitions.
    pub(crate) on: &'static str,
}

impl MigrationName for Indexes {
    fn name(&self) -> &str {
        self.name
    }
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]
#[async_trait::async_trait]
impl MigrationTrait for Indexes {
    fn use_transaction(&self) -> Option<bool> {
        Some(false)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        // In a transaction the table is not visible to others yet, or the database is SQLite, which has one writer.
        let is_alone = !matches!(db, SchemaManagerConnection::Connection(_));
        let concurrently = db.get_database_backend() == DbBackend::Postgres && !is_alone;
        for index in self.indexes {
            index.build(db, concurrently).await?;
        }
        Ok(())
    }
}

impl ConcurrentIndex {
    async fn build(&self, db: &impl ConnectionTrait, concurrently: bool) -> Result<(), DbErr> {
        let name = self.name;
        let on = spelled(self.on, db.get_database_backend());
        if !concurrently {
            let build = format!("CREATE INDEX IF NOT EXISTS {name} ON {on}");
            return db.execute_unprepared(&build).await.map(drop);
        }
        // It waits for other transactions, which continue meanwhile, even a dump of hours.
        db.execute_unprepared("SET lock_timeout = 0").await?;
        if self.is_half_built(db).await? {
            let drop = format!("DROP INDEX CONCURRENTLY IF EXISTS {name}");
            db.execute_unprepared(&drop).await?;
        }
        let build = format!("CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {on}");
        db.execute_unprepared(&build).await?;
        db.execute_unprepared("RESET lock_timeout").await.map(drop)
    }

    /// An interrupted build leaves an index that costs writes and serves no reads.
    async fn is_half_built(&self, db: &impl ConnectionTrait) -> Result<bool, DbErr> {
        let look = format!(
            "SELECT 1 AS one FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE NOT i.indisvalid AND n.nspname = current_schema() AND c.relname = '{}'",
            self.name
        );
        Ok(!rows(db, look).await?.is_empty())
    }
}
