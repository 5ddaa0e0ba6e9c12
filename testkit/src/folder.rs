//! Temporary folders for tests.

use tempfile::TempDir;

/// A new temporary folder, in memory where possible: tests need no durability, and SQLite would wait for the disk
/// at every commit.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}
