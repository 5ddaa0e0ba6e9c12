//! Connections after faults. PostgreSQL is tested elsewhere, over a link that falls silent.

use std::sync::{
    Mutex as Noted,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use tempfile::TempDir;

use super::*;
use crate::{batch::BatchWrite, rows::ColumnType};

async fn store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}", folder.path().join("test.db").display());
    let store = Store::connect(&url).await.expect("a store");
    let tables = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL); \
        CREATE TABLE marks (note INTEGER NOT NULL REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED)";
    store
        .writer()
        .execute_unprepared(tables)
        .await
        .expect("tables");
    (folder, store)
}

/// Limits the writer's connection to its present pages, as if the disk were full. The setting ends with the
/// connection.
async fn fill(store: &Store) {
    let db = store.writer();
    db.execute_unprepared("PRAGMA max_page_count = 1")
        .await
        .expect("is set");
}

fn note(text: &str) -> String {
    format!("INSERT INTO notes (text) VALUES ('{text}')")
}

fn large_note() -> String {
    note(&"x".repeat(100_000))
}

/// Rows as another process sees them, without uncommitted ones.
async fn notes(store: &Store) -> i64 {
    let other = Store::connect(&store.url).await.expect("a store");
    let count = Statement::from_string(other.backend(), "SELECT COUNT(*) AS notes FROM notes");
    let row = other.reader().query_one_raw(count).await.expect("reads");
    let notes = row.expect("a row").try_get("", "notes").expect("a number");
    other.close().await;
    notes
}

async fn write(store: &Store, sql: &str) -> Result<(), DbErr> {
    let txn = store.begin().await?;
    txn.execute_unprepared(sql).await?;
    txn.commit().await
}

#[tokio::test]
async fn what_is_acknowledged_after_a_full_disk_is_committed() {
    let (_folder, store) = store().await;
    for way in ["dropped", "rolled back", "committed all the same", "alone"] {
        let before = notes(&store).await;
        fill(&store).await;
        if way == "alone" {
            let refused = store.writer().execute_unprepared(&large_note()).await;
            assert!(is_transient(&refused.expect_err("is full")), "{way}");
        } else {
            let txn = store.begin().await.expect("begins");
            txn.execute_unprepared(&note("fits")).await.expect("fits");
            let refused = txn.execute_unprepared(&large_note()).await;
            assert!(is_transient(&refused.expect_err("is full")), "{way}");
            let after = txn.execute_unprepared(&note("after")).await;
            after.expect_err("nothing is written beside the transaction");
            match way {
                "dropped" => drop(txn),
                "rolled back" => txn.rollback().await.expect("nothing is left"),
                _ => drop(txn.commit().await.expect_err("was not written")),
            }
        }
        assert_eq!(notes(&store).await, before, "{way}");
        // There is room again: the limit ended with the connection.
        for more in 1..=3 {
            write(&store, &large_note()).await.expect("is written");
            assert_eq!(notes(&store).await, before + more, "{way}");
        }
    }
}

#[tokio::test]
async fn a_commit_that_fails_leaves_no_connection_to_go_on_with() {
    let (_folder, store) = store().await;
    let orphan = "INSERT INTO marks (note) VALUES (4711)";
    write(&store, orphan).await.expect_err("refers to nothing");
    write(&store, &note("after")).await.expect("is written");
    assert_eq!(notes(&store).await, 1);
}

/// Inserts or changes notes with these texts.
fn of_notes(sql: &str, texts: &[&str]) -> BatchWrite {
    let rows = texts.iter().map(|text| vec![(*text).into()]).collect();
    BatchWrite::new(sql, &[("text", ColumnType::Text)], rows)
}

#[tokio::test]
async fn small_writes_are_done_together_or_not_at_all() {
    let (_folder, store) = store().await;
    let insert = |texts: &[&str]| {
        of_notes(
            "INSERT INTO notes (text) SELECT text FROM {rows} WHERE true",
            texts,
        )
    };
    let change = "UPDATE notes SET text = rows.text FROM {rows} WHERE notes.text = rows.text";
    let written = async |writes: &[BatchWrite]| {
        let written = store.write_at_once(writes, Durability::AfterConfirm).await;
        Ok::<_, DbErr>(written?.is_some())
    };
    assert_eq!(written(&[]).await, Ok(true));
    let absent = of_notes(change, &["one", "absent"]);
    for writes in [
        [insert(&["one", "two"]), absent.clone()],
        [absent, insert(&["one"])],
    ] {
        assert_eq!(written(&writes).await, Ok(false));
        assert_eq!(notes(&store).await, 0);
    }
    let both = [insert(&["one", "two"]), of_notes(change, &["one"])];
    assert_eq!(written(&both).await, Ok(true));
    assert_eq!(notes(&store).await, 2);
    fill(&store).await;
    let large = "x".repeat(100_000);
    let refused = written(&[insert(&["three"]), insert(&[&large])]).await;
    assert!(refused.is_err_and(|error| is_transient(&error)));
    assert_eq!(notes(&store).await, 2);
    assert_eq!(written(&[insert(&["three"])]).await, Ok(true));
    assert_eq!(notes(&store).await, 3);
}

#[tokio::test]
async fn a_caller_that_leaves_in_the_middle_leaves_nothing_open() {
    let (_folder, store) = store().await;
    for _ in 0..20 {
        let leaving = async {
            let txn = store.begin().await.expect("begins");
            txn.execute_unprepared(&note("never")).await.expect("fits");
            std::future::pending::<()>().await;
        };
        let soon = Duration::from_millis(5);
        tokio::time::timeout(soon, leaving).await.expect_err("left");
        write(&store, "DELETE FROM marks").await.expect("is next");
    }
    assert_eq!(notes(&store).await, 0);
}

#[tokio::test]
async fn a_wrong_statement_costs_no_connection() {
    let (_folder, store) = store().await;
    // Lasts as long as the connection.
    let mine = "CREATE TEMP TABLE mine (one INTEGER PRIMARY KEY); INSERT INTO mine VALUES (1)";
    store.writer().execute_unprepared(mine).await.expect("made");
    let twice = "INSERT INTO mine VALUES (1)";
    write(&store, twice).await.expect_err("is there already");
    store
        .writer()
        .execute_unprepared(twice)
        .await
        .expect_err("is there already");
    let other = "INSERT INTO mine VALUES (2)";
    write(&store, other).await.expect("the same connection");
}

#[tokio::test]
async fn a_closed_store_hands_out_no_connection() {
    let (_folder, store) = store().await;
    store.close().await;
    assert!(is_transient(&store.begin().await.expect_err("is closed")));
    assert!(is_transient(&store.ping().await.expect_err("is closed")));
}

/// On one thread, a task that has counted itself is in the queue before any other task runs.
#[tokio::test]
async fn a_call_waits_for_one_other_write_however_many_there_are() {
    const CROWD: usize = 60;
    let (_folder, store) = store().await;
    let first = store.begin().await.expect("begins");
    let asked = Arc::new(AtomicUsize::new(0));
    let order = Arc::new(Noted::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..CROWD {
        let (store, asked, order) = (store.clone(), Arc::clone(&asked), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            asked.fetch_add(1, SeqCst);
            if number % 2 == 0 {
                let txn = store.begin().await.expect("begins");
                order.lock().expect("whole").push("other");
                txn.commit().await.expect("commits");
            } else {
                let alone = store.writer().execute_unprepared(&note("alone")).await;
                alone.expect("is written");
                order.lock().expect("whole").push("other");
            }
        }));
    }
    let call = tokio::spawn({
        let (store, asked, order) = (store.clone(), Arc::clone(&asked), Arc::clone(&order));
        async move {
            asked.fetch_add(1, SeqCst);
            let txn = store.begin_critical().await.expect("begins");
            order.lock().expect("whole").push("call");
            txn.commit().await.expect("commits");
        }
    });
    while asked.load(SeqCst) <= CROWD {
        tokio::task::yield_now().await;
    }
    // A caller that leaves must not leave a permit behind.
    for leaving in tasks.drain(..10) {
        leaving.abort();
    }
    first.commit().await.expect("commits");
    call.await.expect("is done");
    for task in tasks {
        task.await.expect("is done");
    }
    let order = order.lock().expect("whole");
    let before = order.iter().position(|who| *who == "call");
    assert!(before.is_some_and(|before| before <= 1), "{order:?}");
    assert_eq!(order.len(), CROWD - 10 + 1);
}

#[tokio::test]
async fn what_tenants_ask_for_is_broken_off_where_it_takes_too_long_and_leaves_its_connection_in_order()
 {
    let (_folder, store) = store().await;
    let query = |sql: &str| Statement::from_string(store.backend(), sql);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) AS n FROM n";
    let ask = || {
        let (store, endless) = (store.clone(), query(endless));
        tokio::spawn(async move { store.api_reader().query_one_raw(endless).await })
    };
    let all: Vec<_> = (0..API_READERS).map(|_| ask()).collect();
    for broken_off in all {
        let error = broken_off.await.expect("asks").expect_err("it never ends");
        assert!(took_too_long(&error) && is_transient(&error), "{error}");
    }
    // A caller that leaves must not leave a statement that runs for ever.
    for _ in 0..API_READERS {
        let left = store.api_reader().query_one_raw(query(endless));
        let soon = Duration::from_millis(5);
        tokio::time::timeout(soon, left).await.expect_err("left");
    }
    let one = store.api_reader().query_one_raw(query("SELECT 1 AS one"));
    assert!(one.await.expect("answers").is_some());
}

/// The timeout of the writer's connection, which a new connection would not have.
async fn patience(store: &Store) -> i64 {
    let ask = Statement::from_string(store.backend(), "PRAGMA busy_timeout");
    let row = store.writer().query_one_raw(ask).await.expect("answers");
    row.expect("a row")
        .try_get("", "timeout")
        .expect("a number")
}

#[tokio::test]
async fn a_write_that_could_not_begin_leaves_its_connection() {
    let (_folder, store) = store().await;
    let writer = store.writer();
    writer
        .execute_unprepared("PRAGMA busy_timeout = 1")
        .await
        .expect("is set");
    let other = Store::connect(&store.url).await.expect("a store");
    let holder = other.begin().await.expect("begins");
    holder
        .execute_unprepared(&note("first"))
        .await
        .expect("is written");
    assert!(write(&store, &note("second")).await.is_err());
    let insert = "INSERT INTO notes (text) SELECT text FROM {rows} WHERE true";
    let small = [of_notes(insert, &["at once"])];
    let refused = store.write_at_once(&small, Durability::OnReturn).await;
    assert!(refused.is_err_and(|error| is_transient(&error)));
    let refused = store.begin().await.expect("nothing is sent yet");
    let count = Statement::from_string(store.backend(), "SELECT COUNT(*) FROM notes");
    assert!(refused.query_one_raw(count).await.is_err());
    drop(refused);
    drop(
        store
            .begin()
            .await
            .expect("begins, and is left before anything is asked"),
    );
    holder.commit().await.expect("commits");
    other.close().await;
    assert_eq!(patience(&store).await, 1, "the connection is another one");
    write(&store, &note("third")).await.expect("is written");
    let written = store.write_at_once(&small, Durability::OnReturn).await;
    assert!(written.expect("is written").is_some());
    assert_eq!(notes(&store).await, 3);
}

#[tokio::test]
async fn the_log_is_copied_into_the_file() {
    let (folder, store) = store().await;
    let file = folder.path().join("test.db");
    let size = || std::fs::metadata(&file).expect("a file").len();
    write(&store, &large_note()).await.expect("is written");
    let before = size();
    store.copy_log().await.expect("is copied");
    assert!(size() > before + 90_000, "{before}, {}", size());
}

#[tokio::test]
async fn a_pool_says_how_many_connections_are_taken() {
    let (_folder, store) = store().await;
    let writer = || {
        store
            .pools()
            .into_iter()
            .find(|(name, _)| *name == "writer")
    };
    let shows = |in_use, idle| {
        let reading = PoolReading {
            in_use,
            idle,
            unopened: 0,
        };
        Some(("writer", reading))
    };
    assert_eq!(writer(), shows(0, 1));
    let txn = store.begin().await.expect("begins");
    assert_eq!(writer(), shows(1, 0));
    txn.rollback().await.expect("ends");
    assert_eq!(writer(), shows(0, 1));
    // On SQLite the ledger writes on the same connection.
    assert!(store.pools().iter().all(|(name, _)| *name != "critical"));
}
