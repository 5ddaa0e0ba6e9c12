//! The right to serve an SQLite file: a lock beside it that one process can have.

use std::fs::{File, TryLockError};

use super::{
    Store, StoreError,
    file::{lock_beside, prepare_file, private_file},
    sqlite_file,
};

/// The right to serve a database, until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Reservation(#[expect(dead_code, reason = "held for its lock")] Option<File>);

impl Store {
    /// Keeps others from serving the same SQLite file: two processes would take each other's calls for their own. On
    /// PostgreSQL owners and epochs tell nodes apart.
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
            // A file system without locks: then nobody can be kept off.
            Err(TryLockError::Error(_)) => Ok(Reservation(None)),
        }
    }

    /// Whether nobody serves the database now, so that [`reserve`](Self::reserve) would succeed. Makes no file.
    pub fn is_free(url: &str) -> Result<(), StoreError> {
        let Some(path) = sqlite_file(url) else {
            return Ok(());
        };
        match File::open(lock_beside(&path)).map(|lock| lock.try_lock_shared()) {
            Ok(Err(TryLockError::WouldBlock)) => Err(StoreError::Served { path }),
            // Nobody ever served it, or the file system has no locks.
            _ => Ok(()),
        }
    }
}
