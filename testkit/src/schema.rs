//! The current schema, created once and copied.

use std::{
    fs::{self, File},
    future::Future,
    io::{Seek, copy},
    path::Path,
    sync::{LazyLock, Mutex},
    thread,
    time::Instant,
};

use dikala_entities::Store;
use sea_orm::{ConnectionTrait, Database};

use crate::{folder::folder, large, wait::PATIENCE};

/// A SQLite file with the current schema, and nothing in it unless it is to be [`large`]. The file is unlinked, so it disappears
/// with this process.
static MIGRATED: LazyLock<Mutex<File>> = LazyLock::new(|| {
    let folder = match large::wanted() {
        // Gigabytes may exceed the memory that holds the tests' folders.
        true => tempfile::tempdir().unwrap(),
        false => folder(),
    };
    let file = folder.path().join("migrated.db");
    let url = format!("sqlite://{}", file.display());
    migrate(&url);
    if large::wanted() {
        on_a_thread(large::fill(&url));
    }
    // If several connections close at once, none may be the last one, which would write the log back.
    let log = folder.path().join("migrated.db-wal");
    let began = Instant::now();
    while fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        assert!(began.elapsed() < PATIENCE, "nothing writes the log back");
        write_back(&url);
    }
    Mutex::new(File::open(file).unwrap())
});

/// Migrates a store. Can be called from any context.
pub(crate) fn migrate(url: &str) {
    on_a_thread(async {
        let store = Store::connect(url).await.expect("a store");
        let schema = store.for_schema().await.expect("a connection");
        dikala_migration::migrate(&schema)
            .await
            .expect("the schema");
        schema.close().await.expect("closes");
        store.close().await;
    });
}

/// Checkpoints an SQLite store's log into its file, unless another connection prevents it.
fn write_back(url: &str) {
    on_a_thread(async {
        let connection = Database::connect(url).await.expect("a store");
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        connection.execute_unprepared(sql).await.expect("runs");
        connection.close().await.expect("closes");
    });
}

/// Runs on a new thread: the caller may be on a runtime, which must not block on another one.
pub(crate) fn on_a_thread(work: impl Future<Output = ()> + Send) {
    thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let done = scope.spawn(move || runtime.unwrap().block_on(work)).join();
        done.expect("the schema is made");
    });
}

/// Writes an SQLite file with the current schema.
pub(crate) fn write_migrated(file: &Path) {
    let mut template = MIGRATED.lock().unwrap();
    template.rewind().unwrap();
    copy(&mut *template, &mut File::create(file).unwrap()).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_nobody_wrote_back_is_written_back() {
        let folder = folder();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("a.db").display());
        let open = Database::connect(&url).await.unwrap();
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE a (b TEXT)";
        open.execute_unprepared(sql).await.unwrap();
        let log = folder.path().join("a.db-wal");
        assert!(fs::metadata(&log).unwrap().len() > 0);
        write_back(&url);
        assert_eq!(fs::metadata(&log).unwrap().len(), 0);
        open.close().await.unwrap();
    }
}
