//! Dikala's database schema, step by step, for SQLite and PostgreSQL.
//!
//! Architecture invariant: nothing here imports anything else of ours. A step, once released, is never changed.

#![warn(unreachable_pub)]

use std::collections::BTreeSet;

use sea_orm_migration::{
    prelude::*,
    sea_orm::{
        ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, QueryResult,
        RuntimeErr, SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
    },
    util::get_file_stem,
};

pub use sea_orm_migration::MigratorTrait;

mod m20261121_000001_initial;
mod m20261121_000002_event_positions;
mod m20261121_000003_recoveries;
mod m20261121_000004_function_stats;
mod m20261121_000005_commit_probe;
mod m20261121_000006_growth;
mod m20261121_000007_versions_and_bounds;
mod m20261121_000008_commit_probe_padding;
mod m20261121_000009_agent_settings;
mod m20261122_000010_one_commit;
mod m20261122_000011_audit;
mod m20261122_000012_statistics;
mod m20261122_000013_people;
mod m20261122_000014_mails;
mod m20261122_000015_operators;
mod m20261122_000016_traces;
mod m20261122_000017_hangup_requests;
mod m20261122_000018_call_filters;
mod m20261122_000019_nodes;
mod m20261122_000020_sign_outs;
mod m20261122_000021_webhook_lanes;
mod m20261122_000022_rate_windows;
mod m20261122_000023_call_pairs;
mod m20261122_000024_claims_of_nodes;
mod m20261122_000025_newest_sockets;
mod m20261122_000026_given_commands;
mod m20261123_000027_clocks_of_nodes;

/// Where the steps that were made are recorded.
const RECORD: &str = "seaql_migrations";
/// Keeps a second process from changing the same schema at the same time: one number for all of Dikala's.
const POSTGRES_LOCK: &str = "SELECT pg_advisory_xact_lock(4920182613)";

/// How long a step waits for a table. The steps themselves may take longer.
const POSTGRES_PATIENCE: &str = "SET LOCAL lock_timeout = '5s'";

const TABLE_IN_USE: &str = "a step of the schema waited for 5 s for a table that others use, as pg_dump does; nothing was changed: try \
                            again when that is over";
const OTHER_CHANGES: &str = "another process is changing the schema, and did not end in time; nothing was changed: see what became of \
                             that process, and try again";

/// Runs the steps.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261121_000001_initial::Migration),
            Box::new(m20261121_000002_event_positions::STEP),
            Box::new(m20261121_000003_recoveries::Migration),
            Box::new(m20261121_000004_function_stats::Migration),
            Box::new(m20261121_000005_commit_probe::Migration),
            Box::new(m20261121_000006_growth::Migration),
            Box::new(m20261121_000007_versions_and_bounds::STEP),
            Box::new(m20261121_000008_commit_probe_padding::Migration),
            Box::new(m20261121_000009_agent_settings::STEP),
            Box::new(m20261122_000010_one_commit::Migration),
            Box::new(m20261122_000011_audit::STEP),
            Box::new(m20261122_000012_statistics::Migration),
            Box::new(m20261122_000013_people::STEP),
            Box::new(m20261122_000014_mails::STEP),
            Box::new(m20261122_000015_operators::STEP),
            Box::new(m20261122_000016_traces::STEP),
            Box::new(m20261122_000017_hangup_requests::STEP),
            Box::new(m20261122_000018_call_filters::STEP),
            Box::new(m20261122_000019_nodes::STEP),
            Box::new(m20261122_000020_sign_outs::STEP),
            Box::new(m20261122_000021_webhook_lanes::STEP),
            Box::new(m20261122_000022_rate_windows::Migration),
            Box::new(m20261122_000023_call_pairs::STEP),
            Box::new(m20261122_000024_claims_of_nodes::STEP),
            Box::new(m20261122_000025_newest_sockets::STEP),
            Box::new(m20261122_000026_given_commands::STEP),
            Box::new(m20261123_000027_clocks_of_nodes::STEP),
        ]
    }
}

/// A step that is nothing but statements, the same on both databases.
struct Statements {
    /// Whose name the step has.
    file: &'static str,
    up: &'static [&'static str],
    down: &'static [&'static str],
}

impl MigrationName for Statements {
    fn name(&self) -> &str {
        get_file_stem(self.file)
    }
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]
#[async_trait::async_trait]
impl MigrationTrait for Statements {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, self.up).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, self.down).await
    }
}

/// Carries out the statements of a step, one after the other; each works on both databases as it stands.
async fn run(manager: &SchemaManager<'_>, statements: &[&str]) -> Result<(), DbErr> {
    for statement in statements {
        manager
            .get_connection()
            .execute_unprepared(statement)
            .await?;
    }
    Ok(())
}

/// Where a database's schema stands, compared with what this program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    /// As needed.
    Current,
    /// This many steps are missing.
    Behind(usize),
    /// A later version of the program has changed it; the step's name.
    Newer(String),
}

/// Looks, and changes nothing.
pub async fn schema_state(db: &impl ConnectionTrait) -> Result<SchemaState, DbErr> {
    let known: BTreeSet<String> = Migrator::migrations()
        .iter()
        .map(|step| step.name().to_owned())
        .collect();
    let applied = applied_steps(db).await?;
    if let Some(newer) = applied.difference(&known).next() {
        return Ok(SchemaState::Newer(newer.clone()));
    }
    Ok(match known.difference(&applied).count() {
        0 => SchemaState::Current,
        missing => SchemaState::Behind(missing),
    })
}

/// Brings the schema up to date, in one transaction: whatever ends it in the middle leaves what was there before. Does nothing
/// where the schema is as needed.
pub async fn migrate(db: &DatabaseConnection) -> Result<(), DbErr> {
    let backend = db.get_database_backend();
    let txn = db
        .begin_with_options(TransactionOptions {
            // From the first statement on: a second process waits instead of failing.
            sqlite_transaction_mode: (backend == DbBackend::Sqlite)
                .then_some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        })
        .await?;
    if backend == DbBackend::Postgres {
        let locked = txn.execute_unprepared(POSTGRES_LOCK).await;
        locked.map_err(|error| in_words(error, OTHER_CHANGES))?;
        txn.execute_unprepared(POSTGRES_PATIENCE).await?;
    } else {
        clear_half_made(&txn).await?;
    }
    let changed = Migrator::up(&txn, None).await;
    changed.map_err(|error| in_words(error, TABLE_IN_USE))?;
    txn.commit().await
}

/// Who waits for a table keeps everybody else from it who comes later: that must not last as long as a dump does.
fn in_words(error: DbErr, words: &str) -> DbErr {
    let is_in_use = match &error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            let error = error.as_database_error();
            error.is_some_and(|error| error.code().as_deref() == Some("55P03"))
        }
        _ => false,
    };
    if is_in_use {
        return DbErr::Custom(words.to_owned());
    }
    error
}

/// Whether [`migrate`] would touch the database: an SQLite file that holds what is not ours it leaves alone.
///
/// Errors: a sentence that names the table.
pub async fn may_migrate(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    let is_sqlite = db.get_database_backend() == DbBackend::Sqlite;
    if !is_sqlite || has_first_step(db).await? {
        return Ok(());
    }
    let ours = m20261121_000001_initial::TABLES;
    let there = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    for row in rows(db, there.to_owned()).await? {
        let table: String = row.try_get("", "name")?;
        let foreign = table != RECORD && !ours.contains(&table.as_str());
        let look = format!(
            "SELECT 1 AS one FROM \"{}\" LIMIT 1",
            table.replace('"', "\"\"")
        );
        if foreign || !rows(db, look).await?.is_empty() {
            return Err(DbErr::Custom(format!(
                "the database has a table {table:?} that no recorded step of dikala made; restore a backup, or name an empty \
                 database in database.url"
            )));
        }
    }
    Ok(())
}

async fn has_first_step(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    let first = m20261121_000001_initial::Migration;
    Ok(applied_steps(db).await?.contains(first.name()))
}

/// Earlier versions made the first step's tables one by one on SQLite. Where that was cut short there are tables without a
/// record of the step; nothing can have been written to them, and they are made anew. A file that holds anything else is not
/// touched.
async fn clear_half_made(txn: &DatabaseTransaction) -> Result<(), DbErr> {
    may_migrate(txn).await?;
    if has_first_step(txn).await? {
        return Ok(());
    }
    for table in m20261121_000001_initial::TABLES {
        txn.execute_unprepared(&format!("DROP TABLE IF EXISTS {table}"))
            .await?;
    }
    Ok(())
}

async fn applied_steps(db: &impl ConnectionTrait) -> Result<BTreeSet<String>, DbErr> {
    if !has_table(db, RECORD).await? {
        return Ok(BTreeSet::new());
    }
    rows(db, format!("SELECT version FROM {RECORD}"))
        .await?
        .iter()
        .map(|row| row.try_get::<String>("", "version"))
        .collect()
}

async fn has_table(db: &impl ConnectionTrait, table: &str) -> Result<bool, DbErr> {
    let look = match db.get_database_backend() {
        DbBackend::Postgres => format!(
            "SELECT 1 AS one FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = '{table}'"
        ),
        _ => {
            format!("SELECT 1 AS one FROM sqlite_master WHERE type = 'table' AND name = '{table}'")
        }
    };
    rows(db, look).await.map(|found| !found.is_empty())
}

async fn rows(db: &impl ConnectionTrait, sql: String) -> Result<Vec<QueryResult>, DbErr> {
    db.query_all_raw(Statement::from_string(db.get_database_backend(), sql))
        .await
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sea_orm_migration::sea_orm::{ConnectOptions, Database};

    use super::*;

    /// A connection to a file that may have so many pages.
    async fn open(path: &Path, pages: Option<u32>) -> DatabaseConnection {
        let mut options = ConnectOptions::new(format!("sqlite://{}?mode=rwc", path.display()));
        options.max_connections(1);
        if let Some(pages) = pages {
            options.map_sqlx_sqlite_opts(move |sqlite| {
                sqlite.pragma("max_page_count", pages.to_string())
            });
        }
        Database::connect(options).await.unwrap()
    }

    async fn tables(db: &DatabaseConnection) -> usize {
        let all = "SELECT name FROM sqlite_master".to_owned();
        rows(db, all).await.unwrap().len()
    }

    /// Each page that is missing makes another statement of the steps the first that fails.
    #[tokio::test]
    async fn a_failure_at_any_statement_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dikala.db");
        let mut failures = 0;
        loop {
            let db = open(&path, Some(failures + 1)).await;
            let outcome = migrate(&db).await;
            db.close().await.unwrap();
            let db = open(&path, None).await;
            if outcome.is_ok() {
                assert_eq!(schema_state(&db).await.unwrap(), SchemaState::Current);
                break;
            }
            failures += 1;
            assert_eq!(tables(&db).await, 0, "after {failures} failures");
            db.close().await.unwrap();
        }
        assert!(failures > 40, "only {failures} statements failed");
    }

    #[tokio::test]
    async fn a_first_step_that_an_earlier_version_left_half_made_is_mended() {
        let folder = tempfile::tempdir().unwrap();
        let db = open(&folder.path().join("dikala.db"), None).await;
        for left in [
            "CREATE TABLE seaql_migrations (version TEXT PRIMARY KEY, applied_at BIGINT NOT NULL)",
            "CREATE TABLE tenants (id TEXT PRIMARY KEY)",
            "CREATE TABLE agents (id TEXT PRIMARY KEY, tenant_id TEXT REFERENCES tenants (id))",
        ] {
            db.execute_unprepared(left).await.unwrap();
        }
        migrate(&db).await.unwrap();
        assert_eq!(schema_state(&db).await.unwrap(), SchemaState::Current);
    }

    #[tokio::test]
    async fn a_file_with_anything_else_in_it_is_left_alone() {
        for foreign in [
            "CREATE TABLE invoices (id INTEGER)",
            "CREATE TABLE tenants (id TEXT); INSERT INTO tenants VALUES ('somebody')",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let db = open(&folder.path().join("other.db"), None).await;
            db.execute_unprepared(foreign).await.unwrap();
            let foreseen = may_migrate(&db).await.unwrap_err().to_string();
            let refused = migrate(&db).await.unwrap_err().to_string();
            assert_eq!(foreseen, refused);
            assert!(refused.contains("database.url"), "{refused}");
            assert_eq!(tables(&db).await, 1);
        }
    }
}
