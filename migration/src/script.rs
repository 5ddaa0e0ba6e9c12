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
    // `calls` is one table on SQLite. On PostgreSQL it is two: one of running calls, and one of ended calls.
    ("{key_of_calls}", "PRIMARY KEY", ""),
    ("{by_status}", "", "PARTITION BY LIST (status)"),
    ("{running_calls}", "calls", "running_calls"),
    ("{ended_calls}", "calls", "ended_calls"),
    (
        "{parts_of_calls}",
        include_str!("first/call_parts_sqlite.sql"),
        include_str!("first/call_parts_postgres.sql"),
    ),
    // Not in the write-ahead log: empty after a crash.
    ("{unlogged}", "", "UNLOGGED"),
    // Read by key ranges: SQLite stores the rows in key order, and in PostgreSQL a new row version fits in its page.
    ("{by_key_ranges}", "WITHOUT ROWID", "WITH (fillfactor = 50)"),
    ("{by_key}", "WITHOUT ROWID", ""),
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
    // Half of each page is kept for new row versions.
    (
        "{growing_and_changing_often}",
        "",
        "WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.01, \
         autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05)",
    ),
];

/// SQL with the words of this database.
pub(crate) fn spelled(sql: &str, backend: DbBackend) -> String {
    let mut sql = sql.to_owned();
    for (word, sqlite, postgres) in WORDS {
        let theirs = match backend {
            DbBackend::Postgres => postgres,
            _ => sqlite,
        };
        sql = sql.replace(word, theirs);
    }
    sql
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
        let sql = spelled(self.sql, manager.get_database_backend());
        db.execute_unprepared(&sql).await.map(drop)
    }
}
