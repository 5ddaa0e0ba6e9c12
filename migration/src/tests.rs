//! The steps as a whole, most of it on SQLite.

use std::path::Path;

use dikala_testkit::{eventually, postgres};
use sea_orm_migration::sea_orm::{ConnectOptions, Database, DatabaseConnection, TransactionTrait};

use super::{
    indexes::{ConcurrentIndex, Indexes},
    state::rows,
    *,
};

/// A connection to a file of at most this many pages.
async fn open(path: &Path, pages: Option<u32>) -> DatabaseConnection {
    let mut options = ConnectOptions::new(format!("sqlite://{}?mode=rwc", path.display()));
    options.max_connections(1);
    if let Some(pages) = pages {
        options
            .map_sqlx_sqlite_opts(move |sqlite| sqlite.pragma("max_page_count", pages.to_string()));
    }
    Database::connect(options).await.unwrap()
}

async fn tables(db: &DatabaseConnection) -> usize {
    let all = "SELECT name FROM sqlite_master".to_owned();
    rows(db, all).await.unwrap().len()
}

/// Each page less makes an earlier statement of the steps fail.
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
async fn a_file_with_anything_else_in_it_is_left_alone() {
    for foreign in [
        "CREATE TABLE invoices (id INTEGER)",
        "CREATE TABLE tenants (id TEXT)",
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

/// A developer's database with the steps that the first one replaced.
#[tokio::test]
async fn a_schema_of_before_the_first_release_is_left_alone() {
    const OLD: &str = "CREATE TABLE tenants (id TEXT PRIMARY KEY); \
         CREATE TABLE nodes (name TEXT, version TEXT, address TEXT, id TEXT, lease_until BIGINT); \
         CREATE TABLE seaql_migrations (version TEXT PRIMARY KEY, applied_at BIGINT NOT NULL); \
         INSERT INTO seaql_migrations (version, applied_at) VALUES ('m20261121_000001_initial', 0)";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dikala.db");
    let mut stores = vec![open(&file, None).await];
    let place = postgres::TestDatabase::create();
    if let Some(place) = &place {
        stores.push(Database::connect(place.url.as_str()).await.unwrap());
    }
    for db in stores {
        db.execute_unprepared(OLD).await.unwrap();
        assert_eq!(schema_state(&db).await.unwrap(), SchemaState::Unreleased);
        migrate(&db).await.unwrap_err();
        assert_eq!(schema_state(&db).await.unwrap(), SchemaState::Unreleased);
        let recorded = "SELECT version FROM seaql_migrations".to_owned();
        assert_eq!(rows(&db, recorded).await.unwrap().len(), 1);
        db.close().await.unwrap();
    }
}

/// Applies the traces of a later release: its step, and the oldest step that a program must know.
async fn later_release(db: &DatabaseConnection, serves_from: i64) {
    for left in [
        "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m20991231_999999_later', 0)",
        &format!("UPDATE schema_compatibility SET serves_from = {serves_from}"),
    ] {
        db.execute_unprepared(left).await.unwrap();
    }
}

#[tokio::test]
async fn a_later_schema_is_served_from_as_long_as_it_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("dikala.db"), None).await;
    migrate(&db).await.unwrap();
    let later = "m20991231_999999_later".to_owned();
    later_release(&db, knows_step()).await;
    let state = schema_state(&db).await.unwrap();
    assert_eq!(state, SchemaState::Ahead(later.clone()));
    // An earlier release has nothing to do.
    migrate(&db).await.unwrap();
    db.execute_unprepared("UPDATE schema_compatibility SET serves_from = 999999")
        .await
        .unwrap();
    let state = schema_state(&db).await.unwrap();
    assert_eq!(state, SchemaState::Newer(later.clone()));
    db.execute_unprepared("DELETE FROM schema_compatibility")
        .await
        .unwrap();
    let state = schema_state(&db).await.unwrap();
    assert_eq!(state, SchemaState::Newer(later));
}

#[tokio::test]
async fn the_last_breaking_step_is_the_oldest_that_a_program_has_to_know() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("dikala.db"), None).await;
    migrate(&db).await.unwrap();
    let breaking = steps().into_iter().filter(Step::is_breaking).last();
    let row = rows(
        &db,
        "SELECT serves_from FROM schema_compatibility".to_owned(),
    )
    .await;
    let from: i64 = row.unwrap()[0].try_get("", "serves_from").unwrap();
    assert_eq!(from, breaking.unwrap().number());
}

#[test]
fn steps_are_numbered_in_their_order() {
    let numbers: Vec<i64> = steps().iter().map(Step::number).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!(numbers[0], 1);
}

/// Other statements must never wait for a concurrent index build.
#[tokio::test]
async fn a_killed_build_of_an_index_is_begun_anew() {
    const STEP: Indexes = Indexes {
        name: "m20991231_999999_index",
        indexes: &[ConcurrentIndex {
            name: "calls_killed_build",
            on: "{ended_calls} (ai_cost_idr, id)",
        }],
    };
    let Some(place) = postgres::TestDatabase::migrated() else {
        return;
    };
    let connect = async || Database::connect(place.url.as_str()).await.unwrap();
    let (schema, other) = (connect().await, connect().await);
    let states = async || {
        let sql = "SELECT i.indisvalid AS valid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                   WHERE c.relname = 'calls_killed_build'";
        let found = rows(&other, sql.to_owned()).await.unwrap();
        let valid = found.iter().map(|row| row.try_get("", "valid").unwrap());
        valid.collect::<Vec<bool>>()
    };
    // A writer to the table keeps the build waiting, after it has created the index.
    let writes = other.begin().await.unwrap();
    writes
        .execute_unprepared("LOCK TABLE calls IN ROW EXCLUSIVE MODE")
        .await
        .unwrap();
    let build = tokio::spawn(async move {
        let outcome = STEP.up(&SchemaManager::new(&schema)).await;
        schema.close().await.unwrap();
        outcome
    });
    eventually("the index is begun", async || {
        (states().await == [false]).then_some(())
    })
    .await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' \
                AND datname = current_database()";
    other.execute_unprepared(kill).await.unwrap();
    build.await.unwrap().expect_err("it was killed");
    writes.rollback().await.unwrap();
    assert_eq!(states().await, [false]);
    STEP.up(&SchemaManager::new(&other)).await.unwrap();
    assert_eq!(states().await, [true]);
    // Recording the step may have failed. A second try leaves the index as it is.
    STEP.up(&SchemaManager::new(&other)).await.unwrap();
    assert_eq!(states().await, [true]);
}

/// A node knows how far it may serve by the number of the last step that it knows, so no step is added below that later.
#[test]
fn steps_are_numbered_without_gaps() {
    let numbers: Vec<i64> = steps().iter().map(Step::number).collect();
    let released: Vec<i64> = numbers
        .into_iter()
        .filter(|number| *number < 900_000)
        .collect();
    assert!(
        released.iter().copied().eq((1..).take(released.len())),
        "{released:?}"
    );
}
