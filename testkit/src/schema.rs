//! The current schema, which is made once and copied.

use std::{
    fs,
    future::Future,
    path::Path,
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use dikala_entities::Store;

use crate::{folder::folder, wait::PATIENCE};

/// A SQLite file with the current schema and nothing in it.
static MIGRATED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = folder();
    let file = folder.path().join("migrated.db");
    migrate(&format!("sqlite://{}", file.display()));
    // The last connection writes everything to the file when it closes, on a thread of its own that nobody waits for.
    let log = folder.path().join("migrated.db-wal");
    let began = Instant::now();
    while log.exists() {
        assert!(began.elapsed() < PATIENCE, "nothing writes the log back");
        thread::sleep(Duration::from_millis(5));
    }
    fs::read(file).unwrap()
});

/// Brings a store up to date, from wherever this is called.
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

/// Whoever asks may be on a runtime, where one cannot block on another.
fn on_a_thread(work: impl Future<Output = ()> + Send) {
    thread::scope(|scope| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let done = scope.spawn(move || runtime.unwrap().block_on(work)).join();
        done.expect("the schema is made");
    });
}

/// Writes an empty store of the current schema.
pub(crate) fn write_migrated(file: &Path) {
    fs::write(file, &*MIGRATED).unwrap();
}
