//! The right to serve an SQLite file: a lock file that only one process can hold.

use std::fs::{File, TryLockError};

use super::{
    Store, StoreError,
    file::{lock_beside, prepare_file, private_file},
    sqlite_file,
};

/// The right to serve a database. It ends when dropped or with the process.
#[derive(Debug)]
pub struct Reservation(#[expect(dead_code, reason = "held for its lock")] Option<File>);

impl Store {
    /// Keeps other processes from serving the same SQLite file: they would take each other's calls for their own. On
    /// PostgreSQL owners and epochs distinguish nodes.
    pub fn reserve(url: &str) -> Result<Reservation, StoreError> {
        let Some(path) = sqlite_file(url) else {
            return Ok(Reservation(None));
        };
        prepare_file(&path)?;
        let lock = lock_beside(&path);
        let file = private_file(&lock).map_err(|reason| StoreError::File { file: lock, reason })?;
        match file.try_lock() {
            Ok(()) => Ok(Reservation(Some(file))),
            Err(TryLockError::WouldBlock) => Err(StoreError::Served { path }),
            // On a file system without locks no process can be kept out.
            Err(TryLockError::Error(_)) => Ok(Reservation(None)),
        }
    }

    /// Succeeds if no process serves the database now, so that [`reserve`](Self::reserve) would succeed. Creates no
    /// file.
    pub fn is_free(url: &str) -> Result<(), StoreError> {
        let Some(path) = sqlite_file(url) else {
            return Ok(());
        };
        match File::open(lock_beside(&path)).map(|lock| lock.try_lock_shared()) {
            Ok(Err(TryLockError::WouldBlock)) => Err(StoreError::Served { path }),
            // It was never served, or the file system has no locks.
            _ => Ok(()),
        }
    }
}
