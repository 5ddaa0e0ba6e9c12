//! Steps of SQL.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

/// A step of SQL, the same for both databases but for the [`WORDS`] in braces.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// Words of a script that the databases spell differently: the word in the script, then SQLite's words and PostgreSQL's.
const WORDS: &[(&str, &str, &str)] = &[
    ("{bytes}", "BLOB", "BYTEA"),
    // Not in the write-ahead log: empty after a crash.
    ("{unlogged}", "", "UNLOGGED"),
    // Read by key ranges: SQLite stores the rows in key order, and in PostgreSQL a new row version fits in its page.
    ("{by_key_ranges}", "WITHOUT ROWID", "WITH (fillfactor = 50)"),
    // A few rows that change constantly: a new row version fits in its page, and needs no new index entries.
    ("{changing}", "", "WITH (fillfactor = 50)"),
    // Vacuumed and analysed after a fixed number of changes plus one percent of the table, not after a fifth.
    (
        "{growing}",
        "",
        "WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_threshold = 1000, \
         autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05)",
    ),
    (
        "{growing_and_changing}",
        "",
        "WITH (fillfactor = 80, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, \
         autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05)",
    ),
    // The rows of a page change together: half of it is kept for their new versions, which need no new index entries then.
    (
        "{growing_and_changing_often}",
        "",
        "WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, \
         autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05)",
    ),
];

impl Script {
    fn sql(&self, backend: DbBackend) -> String {
        let mut sql = self.sql.to_owned();
        for (word, sqlite, postgres) in WORDS {
            let theirs = match backend {
                DbBackend::Postgres => postgres,
                _ => sqlite,
            };
            sql = sql.replace(word, theirs);
        }
        sql
    }
}

impl MigrationName for Script {
    fn name(&self) -> &str {
        self.name
    }
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]
#[async_trait::async_trait]
impl MigrationTrait for Script {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        let sql = self.sql(manager.get_database_backend());
        db.execute_unprepared(&sql).await.map(drop)
    }
}
