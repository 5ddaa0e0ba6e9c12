//! Open stores.

use std::path::Path;

use dikala_entities::Store;
use tempfile::TempDir;

use crate::{
    folder::folder,
    place::{StoreKind, StorePlace},
    postgres::{Durability, TestDatabase},
    schema::migrate,
};

/// Owns a store's data and removes it when dropped.
#[derive(Debug)]
pub struct StoreGuard {
    _place: StorePlace,
    _folder: TempDir,
}

impl StoreKind {
    /// A migrated store and its owner; `None` if PostgreSQL is not installed.
    pub async fn open(self) -> Option<(StoreGuard, Store)> {
        open(|folder| self.migrated_place(folder)).await
    }
}

/// A migrated SQLite store.
pub async fn sqlite() -> (StoreGuard, Store) {
    let opened = StoreKind::Sqlite.open().await;
    opened.expect("there is always SQLite")
}

/// A migrated PostgreSQL store; `None` if PostgreSQL is not installed.
pub async fn postgres() -> Option<(StoreGuard, Store)> {
    StoreKind::Postgres.open().await
}

/// One migrated store of each available kind.
pub async fn both() -> Vec<(StoreGuard, Store)> {
    let sqlite = [sqlite().await];
    sqlite.into_iter().chain(postgres().await).collect()
}

/// As [`both`], with durable commits as in production, for measurements.
pub async fn durable() -> Vec<(StoreGuard, Store)> {
    let postgres = open(|_| {
        let database = TestDatabase::on(Durability::Full)?;
        migrate(&database.url);
        Some(StorePlace::of(database))
    });
    let disk = tempfile::tempdir().unwrap();
    let sqlite = open_in(disk, |folder| StoreKind::Sqlite.migrated_place(folder));
    sqlite.await.into_iter().chain(postgres.await).collect()
}

async fn open(place: impl FnOnce(&Path) -> Option<StorePlace>) -> Option<(StoreGuard, Store)> {
    open_in(folder(), place).await
}

async fn open_in(
    folder: TempDir,
    place: impl FnOnce(&Path) -> Option<StorePlace>,
) -> Option<(StoreGuard, Store)> {
    let place = place(folder.path())?;
    let store = Store::connect(&place.url).await.expect("a store");
    let keep = StoreGuard {
        _place: place,
        _folder: folder,
    };
    Some((keep, store))
}
